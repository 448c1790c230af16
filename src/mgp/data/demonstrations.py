"""Demonstrations, in memory or on disk, and the frames and windows training draws from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mgp.data.lazy import LazyArray
from mgp.data.store import EpisodeStore

ALWAYS = ("action", "state")  # in memory whatever their size: every step of training takes windows of them


def keyed_generator(*key: int) -> torch.Generator:
    """A generator that depends on its key only, e.g. (seed, stage, step): resuming at a step needs no saved state."""
    word = np.random.SeedSequence([k & 0xFFFFFFFF for k in key]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(word >> np.uint64(1)))


@dataclass(frozen=True)
class Demonstrations:
    """All episodes end to end: flat arrays over time, and where each episode begins and ends."""

    # "action" (T, A), "state" (T, S), maybe "cloud" (T, P, 3 or 6), "rgb" (T, h, w, 3), ...: tensors, or a LazyArray
    # where one is large; both are indexed alike
    arrays: dict[str, Any]
    ends: Tensor  # (E,) one past the last step of each episode
    seeds: tuple[int, ...] = ()
    meta: dict = field(default_factory=dict)
    instructions: tuple[str, ...] = ()  # one for every episode, or none at all

    @classmethod
    def from_store(
        cls,
        store: EpisodeStore,
        memory: int = 2**29,
        keys: Sequence[str] | None = None,
        episodes: Sequence[int] | None = None,
    ) -> Demonstrations:
        """Arrays up to `memory` bytes in all are loaded, small ones first; larger ones stay on disk.

        `keys`, `episodes`: only these arrays and episodes; else all there are.
        """
        lazy = {key: LazyArray(store.rows(key)) for key in (store.keys if keys is None else keys)}
        chosen = np.arange(len(store)) if episodes is None else np.asarray(episodes, np.int64)
        ends, lengths = store.episode_ends[chosen], store.lengths[chosen]
        if len(chosen) < len(store):
            times = np.concatenate([np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)])
            lazy = {key: array.select(times) for key, array in lazy.items()}
        arrays: dict[str, Any] = {}
        used = 0
        for key in sorted(lazy, key=lambda key: (key not in ALWAYS, lazy[key].nbytes, key)):
            used += lazy[key].nbytes
            arrays[key] = lazy[key][:] if key in ALWAYS or used <= memory else lazy[key]
        return cls(
            arrays,
            torch.as_tensor(lengths).cumsum(0),
            tuple(map(int, store.seeds[chosen])) if len(store.seeds) else (),
            dict(store.meta),
            tuple(store.instructions[episode] for episode in chosen) if store.instructions else (),
        )

    def first(self, episodes: int) -> Demonstrations:
        """Only the first episodes; a store may hold more than a run asks for."""
        ends = self.ends[:episodes]
        length = int(ends[-1])
        arrays = {k: a.first(length) if isinstance(a, LazyArray) else a[:length] for k, a in self.arrays.items()}
        return Demonstrations(arrays, ends, self.seeds[:episodes], self.meta, self.instructions[:episodes])

    def saying(self, **meta: object) -> Demonstrations:
        """With other words about themselves."""
        return replace(self, meta={**self.meta, **meta})

    def pieces(self, *keys: str, rows: int = 1024) -> Iterator[tuple[Tensor, ...]]:
        """All rows of these arrays, some at a time: what goes over everything once needs not hold it at once."""
        for begin in range(0, int(self.ends[-1]), rows):
            yield tuple(self.arrays[key][begin : begin + rows] for key in keys)

    @property
    def starts(self) -> Tensor:
        return torch.cat([self.ends.new_zeros(1), self.ends[:-1]])

    @property
    def lengths(self) -> Tensor:
        return self.ends - self.starts

    def episode_of(self, time: Tensor) -> Tensor:
        return torch.searchsorted(self.ends, time, right=True)

    def history(self, time: Tensor, frames: int, first: bool = False) -> Tensor:
        """Flat times (B,) to the times of their newest frames (B, H), oldest first; the first of an episode repeats.

        With `first`, the first frame of the episode comes before them.
        """
        start = self.starts[self.episode_of(time)][:, None]
        back = torch.arange(frames - 1, -1, -1)
        newest = torch.maximum(time[:, None] - back, start)
        return torch.cat([start, newest], dim=1) if first else newest

    def action_windows(self, start: Tensor, length: int, episode: Tensor) -> Tensor:
        """Actions (B, length, A) from flat times `start`; beyond an episode's ends its first or last action repeats."""
        time = start[:, None] + torch.arange(length)
        low, high = self.starts[episode][:, None], self.ends[episode][:, None] - 1
        return self.arrays["action"][torch.minimum(torch.maximum(time, low), high)]
