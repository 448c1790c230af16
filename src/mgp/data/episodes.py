"""Writes episodes into a folder as they come; one of them is in memory at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mgp.data.header import check_finite, check_kind, write_group
from mgp.data.writer import RowWriter
from mgp.errors import DataError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")  # a key is a folder's name too


class EpisodeWriter:
    """`path` is the store's name in messages, `folder` the place where it is written."""

    def __init__(self, path: Path, folder: Path):
        self.path, self.folder = path, folder
        self.ends: list[int] = []
        self._arrays: dict[str, RowWriter] = {}

    def __enter__(self) -> EpisodeWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._arrays.values():
            writer.close()

    @property
    def action_width(self) -> int:
        return self._arrays["action"].row[0]

    def append(self, episode: Mapping[str, np.ndarray]) -> None:
        arrays = {key: _numbers(np.asarray(array)) for key, array in episode.items()}
        if not self.ends:
            self._begin(arrays)
        if set(arrays) != set(self._arrays) or len({array.shape[:1] for array in arrays.values()}) != 1:
            raise DataError(
                f"cannot write {self.path}: episodes differ in keys, or one in the lengths of its arrays; episode"
                f" {len(self.ends)} has {_shapes(arrays)}, the first has {', '.join(sorted(self._arrays))}"
            )
        if len(arrays["action"]) == 0:
            raise DataError(f"cannot write {self.path}: episode {len(self.ends)} has no steps; leave it out")
        for key, array in arrays.items():
            writer, where = self._arrays[key], f"{self.path}/data/{key}"
            if array.shape[1:] != writer.row or array.dtype != writer.dtype:
                raise DataError(
                    f"cannot write {where}: episode {len(self.ends)} has {array.shape[1:]} of {array.dtype} a step, the"
                    f" first {writer.row} of {writer.dtype}; make them alike"
                )
            check_finite(where, array, writer.length)
            writer.append(array)
        self.ends.append(self._arrays["action"].length)

    def _begin(self, arrays: dict[str, np.ndarray]) -> None:
        """The first episode says what the others must look like."""
        if "action" not in arrays:
            raise DataError(f"cannot write {self.path}: episodes have no action, only {', '.join(arrays)}; add it")
        for key in sorted(arrays):
            array, where = arrays[key], f"{self.path}/data/{key}"
            if not NAME.fullmatch(key):
                raise DataError(f"cannot write {where}: a key is made of letters, digits, _ and -; rename {key!r}")
            if array.ndim == 0 or 0 in array.shape[1:]:
                raise DataError(f"cannot write {where}: (steps, ...) are needed, got {array.shape}; reshape it")
            check_kind(where, key, array.shape, array.dtype)
            self._arrays[key] = RowWriter(self.folder, f"data/{key}", array.dtype, array.shape[1:])

    def finish(self, seeds: Sequence[int], attributes: dict[str, Any]) -> None:
        for writer in self._arrays.values():
            writer.finish()
        for name, values in (("meta/episode_ends", self.ends), ("meta/seeds", list(seeds))):
            writer = RowWriter(self.folder, name, np.dtype("<i8"), ())
            writer.append(np.asarray(values, np.int64))
            writer.finish()
        for group in ("data", "meta"):
            write_group(self.folder / group)
        write_group(self.folder, attributes)


def _numbers(array: np.ndarray) -> np.ndarray:
    """Floats as float32, all in little-endian order."""
    return array.astype(np.dtype(np.float32) if array.dtype.kind == "f" else array.dtype.newbyteorder("<"), copy=False)


def _shapes(arrays: Mapping[str, np.ndarray]) -> str:
    return ", ".join(f"{key} {array.shape}" for key, array in sorted(arrays.items()))
