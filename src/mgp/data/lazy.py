"""An array on disk that is indexed like a tensor in memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mgp.data.rows import Rows


class LazyArray:
    """`array[index]` reads rows (..., *shape[1:]) for an index tensor of any shape, a slice, or a number.

    Rows are verified when first read. `chosen` (N,) shows only these rows of it. Works in other processes too.
    """

    def __init__(self, rows: Rows, chosen: np.ndarray | None = None):
        self.rows, self._chosen = rows, chosen
        self._length = rows.shape[0] if chosen is None else len(chosen)
        self.dtype: torch.dtype = torch.from_numpy(np.empty(0, rows.dtype)).dtype

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self._length, *self.rows.shape[1:]))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.shape.numel() * self.dtype.itemsize

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"LazyArray({tuple(self.shape)}, {self.dtype}, {self.rows})"

    def first(self, length: int) -> LazyArray:
        """The first rows of it, still on disk."""
        return self.select(np.arange(min(length, self._length)))

    def select(self, index: np.ndarray) -> LazyArray:
        """Rows (N,) of it, still on disk."""
        return LazyArray(self.rows, index if self._chosen is None else self._chosen[index])

    def __getitem__(self, index: Tensor | slice | int) -> Tensor:
        if isinstance(index, slice):
            return self._rows(np.arange(*index.indices(self._length)))
        if isinstance(index, Tensor):
            if index.dtype == torch.bool or index.is_floating_point():
                raise TypeError(f"an index of {index.dtype} reads no rows; use whole numbers (mask.nonzero()[:, 0])")
            return self._rows(index.detach().cpu().numpy().astype(np.int64, copy=False))
        if isinstance(index, int | np.integer):
            return self._rows(np.array(index, np.int64))
        raise TypeError(f"{type(index).__name__} reads no rows; use a tensor of whole numbers, a slice or a number")

    def _rows(self, index: np.ndarray) -> Tensor:
        flat = index.reshape(-1)
        if len(flat):
            low, high = int(flat.min()), int(flat.max())
            if low < -self._length or high >= self._length:
                raise IndexError(f"rows {low} to {high} of an array of {self._length}")
            if low < 0:
                flat = np.where(flat < 0, flat + self._length, flat)
        out = torch.empty((len(flat), *self.shape[1:]), dtype=self.dtype)
        self.rows.gather(flat if self._chosen is None else self._chosen[flat], out.numpy())
        return out.view((*index.shape, *self.shape[1:]))
