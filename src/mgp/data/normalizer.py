"""Limits normaliser: every dimension of every key to [-1, 1]."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from mgp.errors import DataError

CONSTANT = 1e-6  # a dimension that varies by less than this is constant: it maps to 0, never divided by its range


class Normalizer(nn.Module):
    """Statistics live in buffers, so that they are saved, moved and loaded with the weights."""

    def __init__(self, widths: dict[str, int]):
        super().__init__()
        self.widths = dict(widths)
        for key, width in widths.items():
            self.register_buffer(f"{key}_scale", torch.ones(width))
            self.register_buffer(f"{key}_offset", torch.zeros(width))

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.widths)

    @classmethod
    def fit(cls, arrays: dict[str, np.ndarray]) -> Normalizer:
        """From arrays (..., width); all leading axes count as samples."""
        self = cls({key: array.shape[-1] for key, array in arrays.items()})
        for key, array in arrays.items():
            flat = array.reshape(-1, array.shape[-1])
            low, high = flat.min(0).astype(np.float64), flat.max(0).astype(np.float64)
            if not (np.isfinite(low).all() and np.isfinite(high).all()):
                raise DataError(f"{key!r} contains NaN or Inf: remove the broken episodes and collect them again")
            span = high - low
            varies = span > CONSTANT
            scale = np.where(varies, 2.0 / np.where(varies, span, 1.0), 1.0)
            offset = -(low + high) / 2.0 * scale
            getattr(self, f"{key}_scale").copy_(torch.from_numpy(scale))
            getattr(self, f"{key}_offset").copy_(torch.from_numpy(offset))
        return self

    def normalize(self, key: str, value: Tensor) -> Tensor:
        return value * getattr(self, f"{key}_scale") + getattr(self, f"{key}_offset")

    def denormalize(self, key: str, value: Tensor) -> Tensor:
        return (value - getattr(self, f"{key}_offset")) / getattr(self, f"{key}_scale")
