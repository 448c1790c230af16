"""Writes one array of a store as its rows come, in plain files."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

from mgp.data.checksums import block_checksum, block_rows, seed_of, write_checksums
from mgp.data.header import Header

CHUNK_BYTES = 2**26  # of a file: what a zarr reader that is not ours loads at once


class RowWriter:
    """Rows appended in any portions give the same files. Call `close` in any case, `finish` when all are there."""

    def __init__(self, path: Path, name: str, dtype: np.dtype, row: tuple[int, ...]):
        self.path, self.name, self.dtype, self.row = path, name, dtype, row
        self.length = 0
        sizes = Header((0, *row), (1, *row), dtype, True)
        self._row_bytes, self._chunk_name = sizes.row_bytes, sizes.chunk_name
        self._block_rows = block_rows(self._row_bytes)
        # a block never spans two files
        self._chunk_rows = max(1, CHUNK_BYTES // self._row_bytes // self._block_rows) * self._block_rows
        self._seed = self._running = seed_of(dtype, row)
        self._sums: list[int] = []
        self._file: BinaryIO | None = None
        (path / name).mkdir(parents=True)

    def append(self, rows: np.ndarray) -> None:
        """Rows (n, *row) of the writer's dtype."""
        rows = np.ascontiguousarray(rows, self.dtype)
        while len(rows):
            if self.length % self._chunk_rows == 0:
                self.close()
                chunk = self._chunk_name(self.length // self._chunk_rows)
                self._file = open(self.path / self.name / chunk, "wb")  # noqa: SIM115
            assert self._file is not None
            part = rows[: self._block_rows - self.length % self._block_rows]  # up to the end of its block
            self._file.write(part.reshape(-1).view(np.uint8).data)
            self._running = block_checksum(part, self._running)
            self.length += len(part)
            rows = rows[len(part) :]
            if self.length % self._block_rows == 0:
                self._end_block()

    def _end_block(self) -> None:
        self._sums.append(self._running)
        self._running = self._seed

    def finish(self) -> None:
        """The headers, which only now know the length, and the checksums."""
        if self.length % self._block_rows:
            self._end_block()
        rows = min(self.length, self._chunk_rows)
        if self._file is not None:  # zarr wants the last chunk as long as the others: a hole fills it
            self._file.truncate(rows * self._row_bytes)
        self.close()
        Header((self.length, *self.row), (rows, *self.row), self.dtype, True).write(self.path / self.name)
        write_checksums(self.path, self.name, self._block_rows, self._sums)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
