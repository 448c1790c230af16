"""Demonstrations on disk: a zarr (format 2) folder in the layout of diffusion_policy and DP3.

    data/<key>         (T, ...) all episodes one after the other; keys: action, state, cloud, rgb, rgb_<camera>, depth
    meta/episode_ends  (E,) int64, where each episode ends in T
    meta/seeds         (E,) int64, the reset seed of each episode
    checksums/<array>  (blocks,) uint32, of every block of rows (checksums.py)
    .zattrs            format, instructions, and what the recordings are (description.py)

Opening reads headers and `meta` alone; rows are read when asked for and verified when first read. Files hold plain
rows: 100 random frames of 24 kB cost 1.2 to 1.4 times what memory costs (1.3 ms; 3 ms when first read, to verify them),
and 230 times in chunks of 1 MiB compressed as DP3 does it, which save 0.43 of the disk (benchmarks/store.py).

Stores of format 1 (compressed, one checksum an array) and archives of DP3 itself (point_cloud, img; no metadata) can be
read. Nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mgp.data.archive import ArchiveRows
from mgp.data.description import checked_instructions, checked_meta
from mgp.data.episodes import EpisodeWriter
from mgp.data.header import REMEDY, Header, check_kind, read_attributes, read_headers
from mgp.data.rows import Folder, PlainRows, Rows
from mgp.errors import DataError
from mgp.files import new_folder, recover

FORMAT = 2
READABLE = (1, FORMAT)
FOREIGN_KEYS = {"point_cloud": "cloud", "img": "rgb"}  # DP3's names and ours


class EpisodeStore:
    """A store opened for reading. `open` and `write` are the ways to get one."""

    def __init__(self, path: Path, headers: dict[str, Header], attributes: dict[str, Any]):
        self.path = path
        form = attributes.pop("format", 1)
        sums: dict[str, str] = attributes.pop("checksums", {})  # of format 1; archives of others have none
        instructions = attributes.pop("instructions", [])
        self.meta: dict[str, Any] = attributes
        folder = Folder(path)
        self._rows: dict[str, Rows] = {}
        for name, header in headers.items():
            if form == 1:
                self._rows[name] = ArchiveRows(path, name, header, sums.get(name, "") if sums else None)
                continue
            plain = self._rows[name] = PlainRows(folder, name, header)
            plain.check_files()
        self._names = {name.removeprefix("data/"): name for name in headers if name.startswith("data/")}
        if form == 1:
            self._names = {FOREIGN_KEYS.get(key, key): name for key, name in self._names.items()}
        self.episode_ends: np.ndarray = self._meta_array("meta/episode_ends")  # (E,)
        self.seeds: np.ndarray = self._meta_array("meta/seeds")  # (E,), or empty in archives of others
        self.instructions = checked_instructions(f"{path}", instructions, len(self.episode_ends))  # one each, or empty

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

    def rows(self, key: str) -> Rows:
        """One array of all episodes, (T, ...), to be read row by row."""
        if key not in self._names:
            raise DataError(f"{self.path} has no {key!r}; it has {', '.join(self.keys)}: collect with that observation")
        return self._rows[self._names[key]]

    def load(self, key: str) -> np.ndarray:
        """One array of all episodes in memory, (T, ...), verified."""
        return _slice(self.rows(key), 0, int(self.episode_ends[-1]))

    def episodes(self) -> Iterator[dict[str, np.ndarray]]:
        """One episode after the other, with an array a key; no more than one is read at a time."""
        for begin, end in zip(self.episode_ends - self.lengths, self.episode_ends, strict=True):
            yield {key: _slice(self.rows(key), int(begin), int(end)) for key in self.keys}

    def _meta_array(self, name: str) -> np.ndarray:
        rows = self._rows.get(name)
        if rows is None:
            return np.zeros(0, np.int64)
        if len(rows.shape) != 1:
            raise DataError(f"{self.path}/{name} must be (episodes,), got {rows.shape}; {REMEDY}")
        return _slice(rows, 0, rows.shape[0]).astype(np.int64)

    @classmethod
    def open(cls, path: str | Path) -> EpisodeStore:
        """Reads headers and bounds, no array; raises DataError on anything missing or inconsistent."""
        path = Path(path)
        recover(path)
        if not path.is_dir():
            raise DataError(f"there is no store at {path}; make one with mgp collect, or correct the path")
        headers = read_headers(path, "data") | read_headers(path, "meta")
        attributes = read_attributes(path)
        if attributes.get("format", 1) not in READABLE:
            raise DataError(
                f"{path} has format {attributes['format']}, this version reads {' and '.join(map(str, READABLE))};"
                " collect it again or update mgp"
            )
        store = cls(path, headers, attributes)
        store._check()
        return store

    def _check(self) -> None:
        ends = self.episode_ends
        if len(ends) == 0 or ends[0] <= 0 or (np.diff(ends) <= 0).any():
            raise DataError(f"{self.path}/meta/episode_ends must be positive and increasing, got {ends[:5]}; {REMEDY}")
        if len(self.seeds) and self.seeds.shape != ends.shape:
            raise DataError(f"{self.path}/meta/seeds has {self.seeds.shape}, episode_ends {ends.shape}; {REMEDY}")
        if "action" not in self._names:
            raise DataError(f"{self.path}/data has no action, only {', '.join(self.keys)}; {REMEDY}")
        for key in self.keys:
            rows, where = self.rows(key), f"{self.path}/{self._names[key]}"
            if rows.shape[0] != ends[-1]:
                raise DataError(
                    f"{where} has {rows.shape[0]} steps but the episodes end at {ends[-1]}; "
                    f"it was written only in part: {REMEDY}"
                )
            check_kind(where, key, rows.shape, rows.dtype)

    @classmethod
    def write(
        cls,
        path: str | Path,
        episodes: Iterable[Mapping[str, np.ndarray]],
        seeds: Sequence[int],
        meta: Mapping[str, Any],
        instructions: Sequence[str] | None = None,
    ) -> EpisodeStore:
        """Write a store atomically, in place of one that may be there.

        Episodes may come from a generator: one at a time is in memory. Floats are stored as float32, other numbers as
        they are. `instructions`: a text for every episode, of stores that hold several tasks.
        """
        path = Path(path)
        with new_folder(path) as folder, EpisodeWriter(path, folder) as writer:
            for episode in episodes:
                writer.append(episode)
            count = len(writer.ends)
            if count == 0 or len(seeds) != count:
                raise DataError(f"cannot write {path}: {count} episodes with {len(seeds)} seeds; both must be > 0")
            about = checked_meta(f"cannot write {path}", meta, writer.action_width)
            texts = checked_instructions(f"cannot write {path}", instructions or [], count)
            writer.finish(seeds, {**about, "format": FORMAT} | ({"instructions": texts} if texts else {}))
        return cls.open(path)


def _slice(rows: Rows, begin: int, end: int) -> np.ndarray:
    out = np.empty((end - begin, *rows.shape[1:]), rows.dtype)
    rows.gather(np.arange(begin, end), out)
    return out
