"""What a training step sees: windows of actions, and the raw frames before them, each distinct frame once.

B windows, H frames of a condition, F distinct frames, P points, T actions, A action width, S state width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from mgp.config import AugmentationConfig, EncoderConfig, TrainingConfig
from mgp.data.augmentation import draw_warps, warp_actions, warp_cloud, warp_state
from mgp.data.demonstrations import Demonstrations
from mgp.data.description import state_places
from mgp.data.frames import move


class Looks(NamedTuple):
    """Observations of B windows, raw, as the sensors give them."""

    state: Tensor | None  # (B, H, S)
    frames: dict[str, Tensor]  # clouds and images by key, each distinct frame once: (F, ...)
    which: Tensor  # (B, H) which distinct frame each window sees
    hand: Tensor | None  # (F, 3) where the hand is in each distinct frame
    instruction: Tensor | None = None  # (B,) which of the data's instructions

    def to(self, device: torch.device) -> Looks:
        moved = {key: frame.to(device) for key, frame in self.frames.items()}
        parts = (None if part is None else part.to(device) for part in (self.state, self.which, self.hand))
        state, which, hand = parts
        assert which is not None
        return Looks(state, moved, which, hand, None if self.instruction is None else self.instruction.to(device))


class Batch(NamedTuple):
    looks: Looks
    actions: Tensor  # (B, T, A) raw; beyond an episode's ends its first or last action repeats
    inside: Tensor  # (B, T) False where it does so
    extra: dict[str, Tensor] = {}  # noqa: RUF012  what a policy's own source adds; never changed

    def to(self, device: torch.device) -> Batch:
        extra = {key: value.to(device) for key, value in self.extra.items()}
        return Batch(self.looks.to(device), self.actions.to(device), self.inside.to(device), extra)


class Source(Protocol):
    def draw(self, count: int, generator: torch.Generator) -> Batch:
        """`count` samples; everything random comes from the generator."""


class Sample(NamedTuple):
    """Times chosen for a batch, before anything is read."""

    time: Tensor  # (B,) flat time of the newest frame
    episode: Tensor  # (B,)
    group: Tensor  # (B,) windows of one group are warped alike and share their frames
    warps: Tensor | None  # (G, 2, 2)


class Windows:
    """Segments of consecutive windows, so that neighbours share their frames: the source of most policies.

    A window has `length` actions and starts `past` steps before its newest frame.
    """

    def __init__(
        self,
        demonstrations: Demonstrations,
        encoder: EncoderConfig,
        augmentation: AugmentationConfig,
        training: TrainingConfig,
        length: int,
        past: int = 0,
    ):
        self.demonstrations = demonstrations
        self.encoder, self.augmentation, self.training = encoder, augmentation, training
        self.length, self.past = length, past
        known = sorted(set(demonstrations.instructions))
        self.instructions = torch.tensor([known.index(text) for text in demonstrations.instructions])  # (E,)

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        sample = self.choose(count, generator)
        start = sample.time - self.past
        actions = self.demonstrations.action_windows(start, self.length, sample.episode)
        if sample.warps is not None:
            actions = warp_actions(actions, sample.warps[sample.group])
        extra = self.extra(sample, actions, generator)
        times = self.demonstrations.history(sample.time, self.encoder.history, self.encoder.first)
        return Batch(self.look(times, sample, generator), actions, self._inside(start, sample.episode), extra)

    def extra(self, sample: Sample, actions: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """For a policy's own source: what else it draws for a batch."""
        return {}

    def choose(self, count: int, generator: torch.Generator) -> Sample:
        demos = self.demonstrations
        length = min(self.training.segment, count)
        segments = -(-count // length)
        episode = torch.randint(len(demos.ends), (segments,), generator=generator)
        # the approach decides and is short; what follows success is long and does not matter
        share = torch.rand(segments, generator=generator, dtype=torch.float64) ** self.training.early
        first = demos.starts[episode] + (share * demos.lengths[episode]).long()
        last = demos.ends[episode] - 1
        time = torch.minimum(first[:, None] + torch.arange(length), last[:, None]).flatten()[:count]
        warps = draw_warps(segments, self.augmentation, generator)
        segment = torch.arange(segments).repeat_interleave(length)[:count]
        group = segment if warps is not None else torch.zeros_like(time)
        return Sample(time, episode[segment], group, warps)

    def look(self, times: Tensor, sample: Sample, generator: torch.Generator) -> Looks:
        """The observations at flat times (B, H), augmented."""
        arrays, augmentation = self.demonstrations.arrays, self.augmentation
        heavy = [key for key in arrays if key not in ("action", "state")]
        state = arrays["state"][times] if "state" in arrays else None
        if state is not None and sample.warps is not None:
            points = state_places(self.demonstrations.meta, state.shape[-1])
            state = warp_state(state, sample.warps[sample.group], points)
        instruction = self.instructions[sample.episode] if len(self.instructions) else None
        if not heavy:
            return Looks(state, {}, times, None, instruction)
        total = len(arrays["action"])
        distinct, which = (sample.group[:, None] * total + times).unique(return_inverse=True)
        hand = arrays["state"][distinct % total][:, :3] if "state" in arrays else None
        frames = {key: arrays[key][distinct % total] for key in heavy}
        for key in heavy:
            if key.startswith("cloud"):
                warps = None if sample.warps is None else sample.warps[distinct // total]
                frames[key] = augment_cloud(frames[key], hand, warps, augmentation, generator)
        return Looks(state, frames, which, hand, instruction)

    def _inside(self, start: Tensor, episode: Tensor) -> Tensor:
        time = start[:, None] + torch.arange(self.length)
        low, high = self.demonstrations.starts[episode][:, None], self.demonstrations.ends[episode][:, None]
        return (time >= low) & (time < high)


class ActionWindows(Windows):
    """Windows of actions alone, for a tokenizer: no frame is read."""

    def look(self, times: Tensor, sample: Sample, generator: torch.Generator) -> Looks:
        return Looks(None, {}, times[:, :0], None)


class Trajectories(Windows):
    """Windows whose frames go on with the actions: B * `frames` conditions, those of a window one after another."""

    frames = 1
    labels: Mapping[str, Tensor] = {}  # what to say of each flat time (T, ...)

    def extra(self, sample: Sample, actions: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        return {name: values[sample.time] for name, values in self.labels.items()}

    def look(self, times: Tensor, sample: Sample, generator: torch.Generator) -> Looks:
        demos, count = self.demonstrations, self.frames
        last = demos.ends[sample.episode][:, None] - 1
        time = torch.minimum(sample.time[:, None] + torch.arange(count), last).flatten()
        episode, group = (part.repeat_interleave(count) for part in (sample.episode, sample.group))
        times = demos.history(time, self.encoder.history, self.encoder.first)
        return super().look(times, Sample(time, episode, group, sample.warps), generator)


def recorded(demonstrations: Demonstrations, encoder: EncoderConfig, block: int) -> Iterator[tuple[Looks, Tensor]]:
    """Every frame of the demonstrations with its history and its action (B, A), in order, nothing augmented."""
    plain = Windows(demonstrations, encoder, AugmentationConfig(0, 0.0), TrainingConfig(), 1)
    for time in torch.arange(int(demonstrations.ends[-1])).split(block):
        sample = Sample(time, demonstrations.episode_of(time), torch.zeros_like(time), None)
        times = demonstrations.history(time, encoder.history, encoder.first)
        yield plain.look(times, sample, torch.Generator()), demonstrations.arrays["action"][time]


def augment_cloud(
    cloud: Tensor,
    hand: Tensor | None,
    warps: Tensor | None,
    config: AugmentationConfig,
    generator: torch.Generator,
) -> Tensor:
    """Clouds (F, P, 3+) as training shows them: fewer points, warped by (F, 2, 2) about the hand (F, 3), noisy."""
    if 0 < config.points < cloud.shape[1]:
        # one random subset for the whole batch: the order of points means nothing across frames
        cloud = cloud[:, torch.randperm(cloud.shape[1], generator=generator)[: config.points]]
    if warps is not None and hand is not None:
        cloud = warp_cloud(cloud, hand, warps)
    if config.cloud_noise:
        cloud = move(cloud, config.cloud_noise * torch.randn((*cloud.shape[:2], 3), generator=generator))
    return cloud
