"""Demonstrations in memory, and the frames and windows training draws from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from mgp.data.store import EpisodeStore
from mgp.errors import DataError


def keyed_generator(*key: int) -> torch.Generator:
    """A generator that depends on its key only, e.g. (seed, stage, step): resuming at a step needs no saved state."""
    word = np.random.SeedSequence([k & 0xFFFFFFFF for k in key]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(word >> np.uint64(1)))


@dataclass(frozen=True)
class Demonstrations:
    """All episodes end to end: flat arrays over time, and where each episode begins and ends."""

    arrays: dict[str, Tensor]  # "action" (T, A), "state" (T, S), maybe "cloud" (T, P, 3 or 6)
    ends: Tensor  # (E,) one past the last step of each episode
    seeds: tuple[int, ...] = ()
    meta: dict = field(default_factory=dict)
    instructions: tuple[str, ...] = ()  # (E,) one an episode, or none at all

    @classmethod
    def from_store(cls, store: EpisodeStore, colour: bool = False) -> Demonstrations:
        """With `colour`, clouds keep what stands behind xyz."""
        keys: list[str] = [key for key in ("action", "state", "cloud") if key in store.keys]
        arrays = {key: torch.from_numpy(np.ascontiguousarray(store.load(key))).float() for key in keys}
        if "cloud" in arrays and not colour:
            arrays["cloud"] = arrays["cloud"][..., :3].contiguous()
        elif "cloud" in arrays and arrays["cloud"].shape[-1] == 3:
            raise DataError(
                f"{store.path} has clouds of xyz only, encoder.colour = True: train with --encoder.no-colour, or name"
                " another --data"
            )
        return cls(
            arrays,
            torch.as_tensor(store.episode_ends).long(),
            tuple(map(int, store.seeds if store.seeds is not None else ())),
            dict(store.meta),
        )

    def first(self, episodes: int) -> Demonstrations:
        """Only the first episodes; a store may hold more than a run asks for."""
        ends = self.ends[:episodes]
        arrays = {key: array[: int(ends[-1])] for key, array in self.arrays.items()}
        return Demonstrations(arrays, ends, self.seeds[:episodes], self.meta, self.instructions[:episodes])

    def saying(self, **meta: object) -> Demonstrations:
        """With other words about themselves."""
        return replace(self, meta={**self.meta, **meta})

    @property
    def starts(self) -> Tensor:
        return torch.cat([self.ends.new_zeros(1), self.ends[:-1]])

    @property
    def lengths(self) -> Tensor:
        return self.ends - self.starts

    def episode_of(self, time: Tensor) -> Tensor:
        return torch.searchsorted(self.ends, time, right=True)

    def history(self, time: Tensor, frames: int, stride: int = 1, first: bool = False) -> Tensor:
        """Flat times (B,) to the times of their newest frames (B, H), oldest first; the first of an episode repeats.

        With `first`, the first frame of the episode comes before them.
        """
        start = self.starts[self.episode_of(time)][:, None]
        back = torch.arange(frames - 1, -1, -1) * stride
        newest = torch.maximum(time[:, None] - back, start)
        return torch.cat([start, newest], dim=1) if first else newest

    def action_windows(self, start: Tensor, length: int, episode: Tensor) -> Tensor:
        """Actions (B, length, A) from flat times `start`; beyond an episode's ends its first or last action repeats."""
        time = start[:, None] + torch.arange(length)
        low, high = self.starts[episode][:, None], self.ends[episode][:, None] - 1
        return self.arrays["action"][torch.minimum(torch.maximum(time, low), high)]
