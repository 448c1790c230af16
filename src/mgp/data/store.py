"""Demonstrations on disk: a zarr folder in the layout of diffusion_policy and DP3.

    data/<key>         (T, ...) all episodes one after the other; keys: action, state, cloud, rgb, depth
    meta/episode_ends  (E,) int64, where each episode ends in T
    meta/seeds         (E,) int64, the reset seed of each episode (ours only)
    .zattrs            our metadata and the SHA-256 of every array (ours only)

Archives of DP3 itself (point_cloud, img; no metadata) can be read. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr

from mgp.errors import DataError
from mgp.files import new_folder, recover

FORMAT = 1
FOREIGN_KEYS = {"point_cloud": "cloud", "img": "rgb"}  # DP3's names and ours
CODECS = {"blosc", "zstd", "lz4", "zlib", "gzip", "bz2", "lzma"}  # compressors only: no filter may run code
CHUNK_BYTES = 2**20
REMEDY = "collect it again (mgp collect ... --force) or restore it from a copy"


class EpisodeStore:
    """A store opened for reading. `open` and `write` are the ways to get one."""

    def __init__(self, path: Path, group: zarr.Group, names: dict[str, str], attributes: dict[str, Any]):
        self.path = path
        self._group = group
        self._names = names  # our key: its name in the folder
        self._checksums: dict[str, str] = attributes.pop("checksums", {})
        self.meta: dict[str, Any] = attributes
        self.episode_ends: np.ndarray = self._read("meta/episode_ends").astype(np.int64)
        self.seeds: np.ndarray = np.zeros(0, np.int64)  # (E,), or empty in archives of others
        if "meta/seeds" in group:
            self.seeds = self._read("meta/seeds").astype(np.int64)

    @property
    def keys(self) -> list[str]:
        return sorted(self._names)

    @property
    def lengths(self) -> np.ndarray:
        """Steps of each episode, (E,)."""
        return np.diff(self.episode_ends, prepend=0)

    def __len__(self) -> int:
        return len(self.episode_ends)

    def __repr__(self) -> str:
        return f"EpisodeStore({str(self.path)!r}, {len(self)} episodes, keys {', '.join(self.keys)})"

    def load(self, key: str) -> np.ndarray:
        """One array of all episodes in memory, (T, ...), checked against its checksum."""
        if key not in self._names:
            raise DataError(f"{self.path} has no {key!r}; it has {', '.join(self.keys)}: collect with that observation")
        return self._read(f"data/{self._names[key]}")

    def _read(self, name: str) -> np.ndarray:
        try:
            array = np.asarray(self._group[name][...])  # type: ignore[index]
        except Exception as error:  # zarr and its codecs raise many kinds
            raise DataError(f"{self.path / name} cannot be read ({error}); {REMEDY}") from error
        if self._checksums and self._checksums.get(name) != checksum(array):
            raise DataError(f"{self.path / name} does not match its checksum, so it was truncated or altered; {REMEDY}")
        return array

    @classmethod
    def open(cls, path: str | Path) -> EpisodeStore:
        """Open and check every array; raises DataError on anything missing, damaged or inconsistent."""
        path = Path(path)
        recover(path)
        if not path.is_dir():
            raise DataError(f"there is no store at {path}; make one with mgp collect, or correct the path")
        names = {FOREIGN_KEYS.get(folder.name, folder.name): folder.name for folder in _arrays(path / "data")}
        _arrays(path / "meta")
        try:
            group = zarr.open_group(path, mode="r", zarr_format=2)
            attributes = dict(group.attrs)
        except Exception as error:
            raise DataError(f"{path} is not a zarr (format 2) folder ({error}); {REMEDY}") from error
        if attributes.get("format", FORMAT) != FORMAT:
            raise DataError(
                f"{path} has format {attributes['format']}, this version reads {FORMAT}; collect it again or update mgp"
            )
        store = cls(path, group, names, attributes)
        store._check()
        return store

    def _check(self) -> None:
        ends = self.episode_ends
        if ends.ndim != 1 or len(ends) == 0 or ends[0] <= 0 or (np.diff(ends) <= 0).any():
            raise DataError(f"{self.path}/meta/episode_ends must be positive and increasing, got {ends[:5]}; {REMEDY}")
        if len(self.seeds) and self.seeds.shape != ends.shape:
            raise DataError(f"{self.path}/meta/seeds has {self.seeds.shape}, episode_ends {ends.shape}; {REMEDY}")
        if "action" not in self._names:
            raise DataError(f"{self.path}/data has no action, only {', '.join(self.keys)}; {REMEDY}")
        for key in self.keys:
            array = self.load(key)
            if len(array) != ends[-1]:
                raise DataError(
                    f"{self.path}/data/{self._names[key]} has {len(array)} steps but the episodes end at {ends[-1]}; "
                    f"it was written only in part: {REMEDY}"
                )
            _check_array(f"{self.path}/data/{self._names[key]}", key, array)

    @classmethod
    def write(
        cls,
        path: str | Path,
        episodes: Sequence[Mapping[str, np.ndarray]],
        seeds: Sequence[int],
        meta: Mapping[str, Any],
    ) -> EpisodeStore:
        """Write a store atomically, in place of one that may be there. Floats are stored as float32."""
        path = Path(path)
        if len(episodes) == 0 or len(seeds) != len(episodes):
            raise DataError(f"cannot write {path}: {len(episodes)} episodes with {len(seeds)} seeds; both must be > 0")
        for episode in episodes:
            if set(episode) != set(episodes[0]) or len({len(array) for array in episode.values()}) != 1:
                raise DataError(f"cannot write {path}: episodes differ in keys, or one in the lengths of its arrays")
        arrays: dict[str, np.ndarray] = {}
        for key in sorted(episodes[0]):
            array = np.concatenate([np.asarray(episode[key]) for episode in episodes])
            arrays[f"data/{key}"] = array.astype(np.float32) if array.dtype.kind == "f" else array
            _check_array(f"{path}/data/{key}", key, arrays[f"data/{key}"])
        arrays["meta/episode_ends"] = np.cumsum([len(episode["action"]) for episode in episodes], dtype=np.int64)
        arrays["meta/seeds"] = np.asarray(seeds, np.int64)
        checksums = {name: checksum(array) for name, array in arrays.items()}
        with new_folder(path) as folder:
            group = zarr.create_group(folder, zarr_format=2)
            group.attrs.update({**meta, "format": FORMAT, "checksums": checksums})
            for name, array in arrays.items():
                rows = max(1, min(len(array), CHUNK_BYTES // max(array[0].nbytes, 1)))
                # DP3's own choice of compressor; shuffling bytes makes float32 compress
                codec = numcodecs.Blosc("zstd", clevel=3, shuffle=numcodecs.Blosc.SHUFFLE)
                target = group.create_array(
                    name, shape=array.shape, dtype=array.dtype, chunks=(rows, *array.shape[1:]), compressors=codec
                )
                target[...] = array
        return cls.open(path)


def checksum(array: np.ndarray) -> str:
    """SHA-256 of dtype, shape and bytes."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _arrays(folder: Path) -> list[Path]:
    """The arrays of a group, after a look at their metadata: numbers only, and only codecs that cannot run code."""
    found = sorted(entry.parent for entry in folder.glob("*/.zarray"))
    if not found:
        raise DataError(f"{folder} has no arrays, so the store is incomplete or not one; {REMEDY}")
    for array in found:
        try:
            header = json.loads((array / ".zarray").read_text())
            codec = (header["compressor"] or {"id": "zlib"})["id"]
            dtype = np.dtype(header["dtype"])
            filters = header.get("filters")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{array}/.zarray is damaged ({error}); {REMEDY}") from error
        if dtype.kind not in "fiub" or codec not in CODECS or filters:
            raise DataError(
                f"{array} has dtype {dtype}, compressor {codec} and filters {filters}; only plain numbers with a "
                f"compressor of {', '.join(sorted(CODECS))} are read: convert it"
            )
    return found


def _check_array(where: str, key: str, array: np.ndarray) -> None:
    if key in ("action", "state", "cloud") and array.dtype.kind != "f":
        raise DataError(f"{where} must hold floats, got {array.dtype}; convert it")
    if key in ("action", "state") and array.ndim != 2:
        raise DataError(f"{where} must be (steps, dimensions), got {array.shape}; reshape it")
    if key == "cloud" and (array.ndim != 3 or array.shape[2] < 3):
        raise DataError(f"{where} must be (steps, points, 3 or more), got {array.shape}; reshape it")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        step = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise DataError(f"{where} is not finite at step {step}; drop that episode or collect again")
