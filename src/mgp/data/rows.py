"""Reads rows of one array of a store: only those asked for, each verified before it is first given away.

A training step draws a hundred frames of 24 kB out of 75 000. `PlainRows` reads such rows by `preadv` straight into the
result: files hold rows as they are in memory, and the system's page cache, not this process, keeps them. Mapping the
files instead would count every page ever touched as the process's own, and compressed chunks must be undone whole for
one frame of them (benchmarks/store.py compares the ways).
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Protocol

import numpy as np

from mgp.data.checksums import block_checksum, parse_checksums, seed_of
from mgp.data.header import REMEDY, Header, check_finite
from mgp.errors import DataError

SCRATCH_BYTES = 2**22  # read at once for verifying


class Rows(Protocol):
    """An array (T, ...) that is somewhere else. Floats come as float32, other numbers as they are."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def gather(self, index: np.ndarray, out: np.ndarray) -> None:
        """Rows `index` (N,), each in [0, T), into the contiguous `out` (N, ...), verified."""


class Folder:
    """A store's folder held open: if another takes its name, this one is still read, or missed, but never mixed."""

    def __init__(self, path: Path):
        self.path = path
        self.handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        weakref.finalize(self, os.close, self.handle)

    def __reduce__(self) -> tuple:
        return type(self), (self.path,)  # another process opens it again

    def open(self, name: str) -> int:
        return os.open(name, os.O_RDONLY, dir_fd=self.handle)

    def read(self, name: str) -> bytes:
        with os.fdopen(self.open(name), "rb") as file:
            return file.read()


class PlainRows:
    """Rows of an array in plain files (format 2)."""

    def __init__(self, folder: Folder, name: str, header: Header):
        self.folder, self.name, self.header = folder, name, header
        self.shape, self.dtype = header.shape, header.dtype
        self._where = f"{folder.path}/{name}"
        self._row_bytes, self._chunk_rows = header.row_bytes, header.chunks[0]
        self._block_rows = 0  # known, as the checksums are, from the first read on
        self._sums = self._verified = np.zeros(0, bool)  # (blocks,)
        odd = not self.dtype.isnative or (self.dtype.kind == "f" and self.dtype.itemsize != 4)
        if not header.plain or self._row_bytes == 0 or odd:
            raise DataError(
                f"{self._where} is compressed, empty or of {self.dtype.str}, as no store of format 2 is; {REMEDY}"
            )

    def check_files(self) -> None:
        """Every file has its size: half a copy is seen without reading it."""
        expected = self._chunk_rows * self._row_bytes
        for chunk in range(-(-self.shape[0] // self._chunk_rows)):
            file = Path(self._where, self.header.chunk_name(chunk))
            size = file.stat().st_size if file.exists() else None
            if size != expected:
                found = "is missing" if size is None else f"has {size} bytes, its header wants {expected}"
                raise DataError(f"{file} {found}; {REMEDY}")

    def gather(self, index: np.ndarray, out: np.ndarray) -> None:
        if len(index):
            self._verify(index)
            self._fill(index, out)

    def _fill(self, index: np.ndarray, out: np.ndarray) -> None:
        """Rows that follow each other are one read, rows of one file one opening."""
        chunk = index // self._chunk_rows
        begins = np.flatnonzero((np.diff(index) != 1) | (np.diff(chunk) != 0)) + 1
        bounds = np.concatenate([[0], begins, [len(index)]])  # of the runs
        view, size = out.reshape(-1).view(np.uint8).data, self._row_bytes
        opened, handle = -1, -1
        try:
            for run in np.argsort(chunk[bounds[:-1]], kind="stable"):
                begin, end = int(bounds[run]), int(bounds[run + 1])
                if chunk[begin] != opened:
                    if handle >= 0:
                        os.close(handle)
                    opened, handle = int(chunk[begin]), -1
                    handle = self.folder.open(f"{self.name}/{self.header.chunk_name(opened)}")
                self._read(handle, view[begin * size : end * size], int(index[begin] % self._chunk_rows) * size)
        except OSError as error:
            raise DataError(
                f"{self._where} cannot be read ({error}): open the store again if it was replaced meanwhile, else"
                f" {REMEDY}"
            ) from error
        finally:
            if handle >= 0:
                os.close(handle)

    def _read(self, handle: int, view: memoryview, offset: int) -> None:
        while len(view):
            count = os.preadv(handle, [view], offset)
            if count == 0:
                raise DataError(f"{self._where} ends too early, so it was truncated; {REMEDY}")
            view, offset = view[count:], offset + count

    def _verify(self, index: np.ndarray) -> None:
        """The blocks that hold these rows, each once."""
        if not self._block_rows:
            self._read_checksums()
        blocks = index // self._block_rows
        blocks = np.unique(blocks[~self._verified[blocks]])
        at_once = max(1, SCRATCH_BYTES // (self._block_rows * self._row_bytes))
        for first in range(0, len(blocks), at_once):
            self._verify_blocks(blocks[first : first + at_once])

    def _verify_blocks(self, blocks: np.ndarray) -> None:
        rows = (blocks[:, None] * self._block_rows + np.arange(self._block_rows)).ravel()
        rows = rows[rows < self.shape[0]]  # the last block of all may be shorter
        content = np.empty((len(rows), *self.shape[1:]), self.dtype)
        self._fill(rows, content)
        seed = seed_of(self.dtype, self.shape[1:])
        for number, block in enumerate(blocks):
            begin = number * self._block_rows
            part, step = content[begin : begin + self._block_rows], int(rows[begin])
            if block_checksum(part, seed) != self._sums[block]:
                raise DataError(
                    f"{self._where}/{self.header.chunk_name(step // self._chunk_rows)} does not match its checksum at"
                    f" steps {step} to {step + len(part) - 1}, so it was altered; {REMEDY}"
                )
            check_finite(self._where, part, step)
        self._verified[blocks] = True

    def _read_checksums(self) -> None:
        name = f"checksums/{self.name}"
        try:
            content, attributes = self.folder.read(f"{name}/0"), self.folder.read(f"{name}/.zattrs")
            self._block_rows, self._sums = parse_checksums(content, attributes, self.shape[0])
        except (OSError, ValueError) as error:
            raise DataError(f"{self.folder.path}/{name} is damaged or missing ({error}); {REMEDY}") from error
        self._verified = np.zeros(len(self._sums), bool)
