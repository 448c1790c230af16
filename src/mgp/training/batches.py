"""What a training step sees: token targets and the raw frames before them, each distinct frame once.

B windows or sequences, H frames of history, F distinct frames, P points, N tokens, E episodes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mgp.config import Config
from mgp.data.demonstrations import Demonstrations
from mgp.model.network import MGPNetwork
from mgp.training.corruption import Corrupted, corrupt_long, corrupt_short


class Batch(NamedTuple):
    state: Tensor  # (B, H, S)
    cloud: Tensor | None  # (F, P, 3)
    cloud_state: Tensor  # (F, S) the state of each distinct frame
    index: Tensor | None  # (B, H) which distinct frame each window sees
    executed: Tensor  # (B,) tokens before the observation
    tokens: Corrupted
    actions: Tensor  # (B, W, A) raw, those of the window (Short) or next to be executed (Long)


@torch.no_grad()
def tokenize(network: MGPNetwork, actions: Tensor, chunk: int = 512) -> Tensor:
    """Raw actions (M, T, A) to tokens (M, N)."""
    normal = network.normalizer.normalize("action", actions.to(network.normalizer.action_scale))
    return torch.cat([network.tokenizer.encode(part) for part in normal.split(chunk)]).cpu()


class _Frames:
    """The observation half of a batch, with its augmentation."""

    def __init__(self, demonstrations: Demonstrations, config: Config):
        self.demonstrations, self.config = demonstrations, config

    def gather(self, times: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
        """Flat times (B, H) to state (B, H, S), distinct clouds (F, P, 3), their states (F, S) and the index (B, H)."""
        arrays, training = self.demonstrations.arrays, self.config.training
        state = arrays["state"][times]
        if "cloud" not in arrays:
            return state, None, state, None
        distinct, index = times.unique(return_inverse=True)
        cloud = arrays["cloud"][distinct]
        if 0 < training.train_points < cloud.shape[1]:
            # one subset for the whole batch: points come in farthest-first order of each frame, so it is random for all
            cloud = cloud[:, torch.randperm(cloud.shape[1], generator=generator)[: training.train_points]]
        if training.cloud_noise:
            cloud = cloud + training.cloud_noise * torch.randn(cloud.shape, generator=generator)
        if training.shift_noise:
            cloud = cloud + training.shift_noise * torch.randn((len(cloud), 1, 3), generator=generator)
        return state, cloud, arrays["state"][distinct], index


class ShortBatches(_Frames):
    """Segments of consecutive windows, so that neighbours share their frames."""

    def __init__(self, demonstrations: Demonstrations, config: Config, network: MGPNetwork):
        super().__init__(demonstrations, config)
        self.vocabulary = network.transformer.vocabulary
        time = torch.arange(int(demonstrations.ends[-1]))
        episode = demonstrations.episode_of(time)
        windows = demonstrations.action_windows(time - config.past, config.tokenizer.window, episode)
        self.windows = windows  # (T, W, A) the window that belongs to each time
        self.tokens = tokenize(network, windows)  # (T, N)

    def draw(self, batch: int, generator: torch.Generator) -> Batch:
        length = min(self.config.training.segment, batch)
        demos = self.demonstrations
        first = torch.randint(int(demos.ends[-1]), (-(-batch // length),), generator=generator)
        last = demos.ends[demos.episode_of(first)] - 1
        time = torch.minimum(first[:, None] + torch.arange(length), last[:, None]).flatten()[:batch]
        times = demos.history(time, self.config.encoder.history, self.config.encoder.stride)
        tokens = corrupt_short(self.tokens[time], self.vocabulary, self.config.masking, generator)
        return Batch(*self.gather(times, generator), torch.zeros(batch, dtype=torch.long), tokens, self.windows[time])


class LongBatches(_Frames):
    """Whole episodes, seen from a random replanning time; the token grid starts at a random of its phases."""

    def __init__(self, demonstrations: Demonstrations, config: Config, network: MGPNetwork):
        super().__init__(demonstrations, config)
        self.vocabulary = network.transformer.vocabulary
        self.per, self.size = config.tokenizer.actions_per_token, config.tokens
        episodes = torch.arange(len(demonstrations.ends))
        phases = []
        for phase in range(self.per):
            start = demonstrations.starts + phase
            actions = demonstrations.action_windows(start, self.size * self.per, episodes)
            phases.append(tokenize(network, actions))
        self.tokens = torch.stack(phases, 1)  # (E, phases, N)

    def draw(self, batch: int, generator: torch.Generator) -> Batch:
        demos, masking = self.demonstrations, self.config.masking
        episodes = len(demos.ends)
        episode = torch.randint(episodes, (batch,), generator=generator)
        phase = torch.randint(self.per, (batch,), generator=generator)
        steps = demos.lengths[episode]
        # an episode shorter than the horizon ends with [END]; one that fills it was merely cut off there
        length = (-(-(steps - phase) // self.per)).clamp_max(self.size)
        length = torch.where(steps >= self.config.env.horizon, torch.full_like(length, self.size), length)
        reach = ((steps - 1 - phase) // self.per).clamp_max(self.size - 1)
        executed = (torch.rand(batch, generator=generator) * (reach + 1)).long()
        executed[torch.rand(batch, generator=generator) < masking.start] = 0
        time = demos.starts[episode] + phase + executed * self.per
        donor = self.tokens[torch.randint(episodes, (batch,), generator=generator), phase]
        run = self.config.sampling.execution_horizon
        near = run // self.per
        tokens = corrupt_long(
            self.tokens[episode, phase], length, executed, donor, near, self.vocabulary, masking, generator
        )
        times = demos.history(time, self.config.encoder.history, self.config.encoder.stride)
        return Batch(*self.gather(times, generator), executed, tokens, demos.action_windows(time, run, episode))
