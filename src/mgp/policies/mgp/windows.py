"""What a training step of MGP sees: token targets, how they are hidden, and the frames before them.

B windows or sequences, N tokens, E episodes, A action width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mgp.data.augmentation import draw_warps, warp_actions
from mgp.data.demonstrations import Demonstrations
from mgp.data.windows import Batch, Looks, Sample, Windows
from mgp.errors import ConfigError
from mgp.model.transformer import Vocabulary
from mgp.policies.config import RunConfig
from mgp.policies.mgp.config import MGPConfig
from mgp.sampling.corruption import Corrupted, corrupt_long, corrupt_short
from mgp.sampling.stale import led_aside, span

ALIKE = 16_384  # frames among which a like one is looked for
Tokenize = Callable[[Tensor], Tensor]  # raw actions (M, T, A) to tokens (M, N)


class TokenizerWindows:
    """Actions alone, for stage 1. Unlike a policy's, a window may hang over an episode's ends by all but one token."""

    def __init__(self, demonstrations: Demonstrations, config: RunConfig):
        assert isinstance(config.policy, MGPConfig)
        self.demonstrations, self.augmentation = demonstrations, config.augmentation
        self.length, self.margin = config.policy.tokenizer.window, config.policy.tokenizer.actions_per_token

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        demos = self.demonstrations
        episode = torch.randint(len(demos.ends), (count,), generator=generator)
        span = (demos.lengths[episode] - self.length).clamp_min(0) + 2 * self.margin
        offset = (torch.rand(count, generator=generator) * (span + 1)).long() - self.margin
        actions = demos.action_windows(demos.starts[episode] + offset, self.length, episode)
        warps = draw_warps(count, self.augmentation, generator)
        nothing = Looks(None, {}, torch.zeros(count, 0, dtype=torch.long), None)
        inside = torch.ones(actions.shape[:2], dtype=torch.bool)
        return Batch(nothing, actions if warps is None else warp_actions(actions, warps), inside)


def as_extra(clean: Tensor, tokens: Corrupted, executed: Tensor) -> dict[str, Tensor]:
    return {"clean": clean, "executed": executed, **tokens._asdict()}


class ShortWindows(Windows):
    """Windows of a few tokens, nothing of them executed."""

    def __init__(
        self, demonstrations: Demonstrations, config: RunConfig, past: int, tokenize: Tokenize, vocabulary: Vocabulary
    ):
        assert isinstance(config.policy, MGPConfig)
        self.masking, self.tokenize, self.vocabulary = config.policy.masking, tokenize, vocabulary
        length = config.policy.tokenizer.window
        super().__init__(demonstrations, config.encoder, config.augmentation, config.training, length, past)
        time = torch.arange(int(demonstrations.ends[-1]))
        windows = demonstrations.action_windows(time - past, length, demonstrations.episode_of(time))
        self.tokens = tokenize(windows)  # (T, N) of the window that belongs to each time

    def extra(self, sample: Sample, actions: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        clean = self.tokens[sample.time] if sample.warps is None else self.tokenize(actions)
        tokens = corrupt_short(clean, self.vocabulary, self.masking, generator)
        return as_extra(clean, tokens, torch.zeros(len(clean), dtype=torch.long))


class LongWindows(Windows):
    """Whole episodes, seen from a random replanning time; the token grid starts at a random of its phases."""

    def __init__(
        self,
        demonstrations: Demonstrations,
        config: RunConfig,
        near: int,
        size: int,
        tokenize: Tokenize,
        vocabulary: Vocabulary,
        horizon: int,
    ):
        """`near`: actions that would be executed next; `size`: tokens of a plan; `horizon`: steps of an episode."""
        assert isinstance(config.policy, MGPConfig)
        super().__init__(demonstrations, config.encoder, config.augmentation, config.training, near)
        self.masking, self.per = config.policy.masking, config.policy.tokenizer.actions_per_token
        self.size, self.horizon, self.tokenize, self.vocabulary = size, horizon, tokenize, vocabulary
        if self.masking.foreign_frame and len(demonstrations.ends) < 2:
            raise ConfigError(
                f"masking.foreign_frame = {self.masking.foreign_frame} needs frames of other demonstrations, but"
                " there is one only: collect more, or set it to 0"
            )
        if self.masking.foreign_frame and "state" not in demonstrations.arrays:
            raise ConfigError(
                f"masking.foreign_frame = {self.masking.foreign_frame} goes by the robot's state, which the"
                " demonstrations lack: set it to 0"
            )
        episodes = torch.arange(len(demonstrations.ends))
        starts = [demonstrations.starts + phase for phase in range(self.per)]
        whole = [demonstrations.action_windows(start, self.size * self.per, episodes) for start in starts]
        self.actions = torch.stack(whole, 1)  # (E, phases, T, A)
        self.tokens = torch.stack([tokenize(part) for part in whole], 1)  # (E, phases, N)
        self.moving = _motion(demonstrations) if self.masking.foreign_frame else torch.empty(0)
        self.absolute = demonstrations.meta.get("actions") == "absolute"
        self.span = span(demonstrations) if self.masking.stale_plan else 0.0

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        demos, masking = self.demonstrations, self.masking
        episodes = len(demos.ends)
        episode = torch.randint(episodes, (count,), generator=generator)
        steps = demos.lengths[episode]
        phase = torch.minimum(torch.randint(self.per, (count,), generator=generator), steps - 1)
        # an episode shorter than the horizon ends with [END]; one that fills it was merely cut off there
        length = (-(-(steps - phase) // self.per)).clamp_max(self.size)
        whole = torch.full_like(steps, not masking.end, dtype=torch.bool) | (steps >= self.horizon)
        length = torch.where(whole, self.size, length)
        reach = ((steps - 1 - phase) // self.per).clamp_max(self.size - 1)
        share = torch.rand(count, generator=generator) ** self.training.early
        executed = (share * (reach + 1)).long()
        executed[torch.rand(count, generator=generator) < masking.start] = 0
        time = demos.starts[episode] + phase + executed * self.per
        donor = self.tokens[torch.randint(episodes, (count,), generator=generator), phase]
        warps = draw_warps(count, self.augmentation, generator)
        group = torch.arange(count) if warps is not None else torch.zeros_like(time)
        near, clean = demos.action_windows(time, self.length, episode), self.tokens[episode, phase]
        actions = self.actions[episode, phase]  # (B, T, A)
        if warps is not None:
            near, actions = warp_actions(near, warps), warp_actions(actions, warps)
            clean = self.tokenize(actions)
        stale = None
        if masking.stale_plan:
            stale = self.tokenize(led_aside(actions, executed * self.per, self.span, self.absolute, generator))
        soon = self.length // self.per
        tokens = corrupt_long(clean, length, executed, donor, soon, self.vocabulary, masking, generator, stale)
        history, first = self.encoder.history, self.encoder.first
        times = demos.history(time, history, first)
        if masking.foreign_frame:
            foreign = (torch.rand(count, generator=generator) < masking.foreign_frame) & (executed > 0)
            alike = demos.history(self._alike(time, episode, generator), history)
            times[foreign, first:] = alike[foreign]
        looks = self.look(times, Sample(time, episode, group, warps), generator)
        return Batch(looks, near, self._inside(time, episode), as_extra(clean, tokens, executed))

    def _alike(self, time: Tensor, episode: Tensor, generator: torch.Generator) -> Tensor:
        """For each time (B,), one of another demonstration alike in state and motion: the likest of some drawn."""
        drawn = torch.randint(len(self.moving), (ALIKE,), generator=generator)
        distance = torch.cdist(self.moving[time], self.moving[drawn])
        same = self.demonstrations.episode_of(drawn) == episode[:, None]
        return drawn[distance.masked_fill(same, torch.inf).argmin(1)]


def _motion(demonstrations: Demonstrations) -> Tensor:
    """State and motion of each frame (T, 2 S), each number at its own scale.

    By state alone, one in ten frames near a button sinks where its like rises.
    """
    state = demonstrations.arrays["state"][:]
    before = demonstrations.history(torch.arange(len(state)), 2)[:, 0]
    moving = torch.cat([state, state - state[before]], dim=1)
    return (moving - moving.mean(0)) / moving.std(0).clamp_min(1e-6)
