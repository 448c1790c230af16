"""Rows of compressed arrays: stores of format 1, and archives of DP3 and diffusion_policy.

A chunk is undone whole for any row of it, so random frames cost milliseconds each. `EpisodeStore.write(path,
store.episodes(), ...)` makes a store of today's format of one.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from mgp.data.header import REMEDY, Header, check_finite
from mgp.errors import DataError

CACHE_BYTES = 2**26  # of undone chunks kept


class ArchiveRows:
    """With a checksum (format 1 has one for a whole array), the first read goes through all of it, chunk by chunk."""

    def __init__(self, path: Path, name: str, header: Header, checksum: str | None = None):
        self.path, self.name, self.header = path, name, header
        self.shape = header.shape
        self.dtype = np.dtype(np.float32) if header.dtype.kind == "f" else header.dtype.newbyteorder("=")
        self._checksum = checksum
        self._array: Any = None
        self._cache: OrderedDict[int, np.ndarray] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_array": None, "_cache": OrderedDict()}

    @property
    def where(self) -> str:
        return f"{self.path}/{self.name}"

    def gather(self, index: np.ndarray, out: np.ndarray) -> None:
        if self._checksum is not None:
            self._verify(self._checksum)
            self._checksum = None
        rows = self.header.chunks[0]
        chunks = index // rows
        for chunk in np.unique(chunks):
            here = chunks == chunk
            out[here] = self._chunk(int(chunk))[index[here] - chunk * rows]

    def _chunk(self, chunk: int) -> np.ndarray:
        """A chunk's rows as they are given away; those last used are kept."""
        if chunk not in self._cache:
            raw = self._read(chunk)
            check_finite(self.where, raw, chunk * self.header.chunks[0])
            self._cache[chunk] = raw.astype(self.dtype, copy=False)
            kept = max(1, CACHE_BYTES // max(1, raw.nbytes))
            while len(self._cache) > kept:
                self._cache.popitem(last=False)
        self._cache.move_to_end(chunk)
        return self._cache[chunk]

    def _read(self, chunk: int) -> np.ndarray:
        rows = self.header.chunks[0]
        try:
            if self._array is None:
                import zarr  # half a second, which stores of today's format do not need

                self._array = zarr.open_array(self.path / self.name, mode="r", zarr_format=2)
            return np.asarray(self._array[chunk * rows : (chunk + 1) * rows])
        except Exception as error:  # zarr and its codecs raise many kinds
            raise DataError(f"{self.where} cannot be read ({error}); {REMEDY}") from error

    def _verify(self, checksum: str) -> None:
        digest = hashlib.sha256(f"{self.header.dtype.str}{self.shape}".encode())
        for chunk in range(-(-self.shape[0] // self.header.chunks[0])):
            digest.update(np.ascontiguousarray(self._read(chunk)).data)
        if digest.hexdigest() != checksum:
            raise DataError(f"{self.where} does not match its checksum, so it was truncated or altered; {REMEDY}")
