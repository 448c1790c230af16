"""A CSV that several processes may add to: read whole, changed, rewritten whole. Empty cells are left out of a line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mgp.errors import DataError
from mgp.files import lock, write_atomic

Line = dict[str, str]


@contextmanager
def changed(path: Path, columns: Sequence[str]) -> Iterator[list[Line]]:
    """The lines, to change in place; written back if the block ends well and they differ. New columns go last.

    The lock is for two evaluations that end together: neither loses the other's lines.
    """
    with lock(path):
        names, lines = read(path) if path.exists() else (list(columns), [])
        before = [dict(line) for line in lines]
        yield lines
        if lines == before and path.exists():
            return
        names += [name for name in dict.fromkeys(name for line in lines for name in line) if name not in names]
        write(path, names, lines)


def write(path: Path, columns: Sequence[str], lines: Sequence[Line]) -> None:
    """The whole table."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_atomic(path, text.getvalue().encode())


def read(path: Path) -> tuple[list[str], list[Line]]:
    """Columns and lines."""
    with path.open(newline="") as file:
        reader = csv.reader(file)
        columns = next(reader, None)
        if not columns:
            raise DataError(f"{path} has no header line: delete it or restore it from git")
        lines = [line for line in reader if line]
    for number, line in enumerate(lines, 2):
        if len(line) != len(columns):
            raise DataError(f"{path} line {number} has {len(line)} cells, the header {len(columns)}: mend the file")
    return columns, [{k: v for k, v in zip(columns, line, strict=True) if v != ""} for line in lines]


def text(value: Any) -> str:
    return "" if value is None else str(value)
