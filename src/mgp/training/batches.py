"""What a training step sees: token targets and the raw frames before them, each distinct frame once.

B windows or sequences, H frames of history, F distinct frames, P points, N tokens, E episodes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mgp.config import Config
from mgp.data.demonstrations import Demonstrations
from mgp.errors import ConfigError
from mgp.model.frames import move
from mgp.model.network import MGPNetwork
from mgp.training.augmentation import draw_warps, warp_actions, warp_cloud, warp_state
from mgp.training.corruption import Corrupted, corrupt_long, corrupt_short

ALIKE = 16_384  # frames among which a like one is looked for


class Batch(NamedTuple):
    state: Tensor  # (B, H, S)
    cloud: Tensor | None  # (F, P, 3+)
    cloud_state: Tensor  # (F, S) the state of each distinct frame
    frame: Tensor | None  # (B, H) which distinct frame each window sees
    executed: Tensor  # (B,) tokens before the observation
    tokens: Corrupted
    actions: Tensor  # (B, W, A) raw, those of the window (Short) or next to be executed (Long)


@torch.no_grad()
def tokenize(network: MGPNetwork, actions: Tensor, chunk: int = 512) -> Tensor:
    """Raw actions (M, T, A) to tokens (M, N)."""
    normal = network.normalizer.normalize("action", actions.to(network.tokenizer.codebook.codes)).clamp(-1, 1)
    return torch.cat([network.tokenizer.encode(part) for part in normal.split(chunk)]).cpu()


class _Frames:
    """The observation half of a batch, with its augmentation."""

    def __init__(self, demonstrations: Demonstrations, config: Config):
        self.demonstrations, self.config = demonstrations, config

    def gather(
        self, times: Tensor, group: Tensor, warps: Tensor | None, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
        """Flat times (B, H) to state (B, H, S), distinct clouds (F, P, 3+), their states (F, S) and the index (B, H).

        Windows of one group (B,) are warped alike, by warps (G, 2, 2), and share their frames.
        """
        arrays, training = self.demonstrations.arrays, self.config.training
        state = arrays["state"][times]
        if warps is not None:
            state = warp_state(state, warps[group])
        if "cloud" not in arrays:
            return state, None, state, None
        total = len(arrays["state"])
        distinct, index = (group[:, None] * total + times).unique(return_inverse=True)
        cloud, cloud_state = arrays["cloud"][distinct % total], arrays["state"][distinct % total]
        if 0 < training.train_points < cloud.shape[1]:
            # one random subset for the whole batch: the order of points means nothing across frames
            cloud = cloud[:, torch.randperm(cloud.shape[1], generator=generator)[: training.train_points]]
        if warps is not None:
            cloud = warp_cloud(cloud, cloud_state, warps[distinct // total])
        if training.cloud_noise:
            cloud = move(cloud, training.cloud_noise * torch.randn((*cloud.shape[:2], 3), generator=generator))
        if training.shift_noise:
            cloud = move(cloud, training.shift_noise * torch.randn((len(cloud), 1, 3), generator=generator))
        return state, cloud, cloud_state, index


class ShortBatches(_Frames):
    """Segments of consecutive windows, so that neighbours share their frames."""

    def __init__(self, demonstrations: Demonstrations, config: Config, network: MGPNetwork):
        super().__init__(demonstrations, config)
        self.vocabulary = network.transformer.vocabulary
        time = torch.arange(int(demonstrations.ends[-1]))
        episode = demonstrations.episode_of(time)
        windows = demonstrations.action_windows(time - config.past, config.tokenizer.window, episode)
        self.network = network
        self.windows = windows  # (T, W, A) the window that belongs to each time
        self.tokens = tokenize(network, windows)  # (T, N)

    def draw(self, batch: int, generator: torch.Generator) -> Batch:
        length = min(self.config.training.segment, batch)
        demos = self.demonstrations
        segments = -(-batch // length)
        episode = torch.randint(len(demos.ends), (segments,), generator=generator)
        # the approach decides and is short; what follows success is long and does not matter
        share = torch.rand(segments, generator=generator, dtype=torch.float64) ** self.config.training.early
        first = demos.starts[episode] + (share * demos.lengths[episode]).long()
        last = demos.ends[episode] - 1
        time = torch.minimum(first[:, None] + torch.arange(length), last[:, None]).flatten()[:batch]
        times = demos.history(time, self.config.encoder.history, self.config.encoder.stride)
        warps = draw_warps(segments, self.config.training, generator)
        group, actions, clean = torch.zeros_like(time), self.windows[time], self.tokens[time]
        if warps is not None:
            group = torch.arange(segments).repeat_interleave(length)[:batch]
            actions = warp_actions(actions, warps[group])
            clean = tokenize(self.network, actions)
        tokens = corrupt_short(clean, self.vocabulary, self.config.masking, generator)
        nothing = torch.zeros(batch, dtype=torch.long)
        return Batch(*self.gather(times, group, warps, generator), nothing, tokens, actions)


class LongBatches(_Frames):
    """Whole episodes, seen from a random replanning time; the token grid starts at a random of its phases."""

    def __init__(self, demonstrations: Demonstrations, config: Config, network: MGPNetwork):
        super().__init__(demonstrations, config)
        self.vocabulary = network.transformer.vocabulary
        self.per, self.size = config.tokenizer.actions_per_token, config.tokens
        self.network = network
        if config.masking.foreign_frame and len(demonstrations.ends) < 2:
            raise ConfigError(
                f"masking.foreign_frame = {config.masking.foreign_frame} needs frames of other demonstrations, but"
                " there is one only: collect more, or set it to 0"
            )
        episodes = torch.arange(len(demonstrations.ends))
        starts = [demonstrations.starts + phase for phase in range(self.per)]
        whole = [demonstrations.action_windows(start, self.size * self.per, episodes) for start in starts]
        self.actions = torch.stack(whole, 1)  # (E, phases, T, A)
        self.tokens = torch.stack([tokenize(network, part) for part in whole], 1)  # (E, phases, N)
        state = demonstrations.arrays["state"]
        before = demonstrations.history(torch.arange(len(state)), 2)[:, 0]
        # by state alone, one in ten frames near a button sinks where its like rises
        moving = torch.cat([state, state - state[before]], dim=1)
        self.moving = (moving - moving.mean(0)) / moving.std(0).clamp_min(1e-6)  # (T, 2 S)

    def draw(self, batch: int, generator: torch.Generator) -> Batch:
        demos, masking = self.demonstrations, self.config.masking
        episodes = len(demos.ends)
        episode = torch.randint(episodes, (batch,), generator=generator)
        steps = demos.lengths[episode]
        phase = torch.minimum(torch.randint(self.per, (batch,), generator=generator), steps - 1)
        # an episode shorter than the horizon ends with [END]; one that fills it was merely cut off there
        length = (-(-(steps - phase) // self.per)).clamp_max(self.size)
        whole = torch.full_like(steps, not masking.end, dtype=torch.bool) | (steps >= self.config.env.horizon)
        length = torch.where(whole, self.size, length)
        reach = ((steps - 1 - phase) // self.per).clamp_max(self.size - 1)
        share = torch.rand(batch, generator=generator) ** self.config.training.early
        executed = (share * (reach + 1)).long()
        executed[torch.rand(batch, generator=generator) < masking.start] = 0
        time = demos.starts[episode] + phase + executed * self.per
        donor = self.tokens[torch.randint(episodes, (batch,), generator=generator), phase]
        run = self.config.near
        warps = draw_warps(batch, self.config.training, generator)
        group, near, clean = (
            torch.zeros_like(time),
            demos.action_windows(time, run, episode),
            self.tokens[episode, phase],
        )
        if warps is not None:
            group = torch.arange(batch)
            near = warp_actions(near, warps)
            clean = tokenize(self.network, warp_actions(self.actions[episode, phase], warps))
        soon = run // self.per
        tokens = corrupt_long(clean, length, executed, donor, soon, self.vocabulary, masking, generator)
        encoder = self.config.encoder
        times = demos.history(time, encoder.history, encoder.stride, encoder.first)
        if masking.foreign_frame:
            foreign = (torch.rand(batch, generator=generator) < masking.foreign_frame) & (executed > 0)
            alike = demos.history(self._alike(time, episode, generator), encoder.history, encoder.stride)
            times[foreign, encoder.first :] = alike[foreign]
        return Batch(*self.gather(times, group, warps, generator), executed, tokens, near)

    def _alike(self, time: Tensor, episode: Tensor, generator: torch.Generator) -> Tensor:
        """For each time (B,), one of another demonstration alike in state and motion: the likest of some drawn."""
        drawn = torch.randint(len(self.moving), (ALIKE,), generator=generator)
        distance = torch.cdist(self.moving[time], self.moving[drawn])
        same = self.demonstrations.episode_of(drawn) == episode[:, None]
        return drawn[distance.masked_fill(same, torch.inf).argmin(1)]
