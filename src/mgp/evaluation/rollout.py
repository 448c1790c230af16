"""A batch of episodes in lock step, in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mgp.envs.base import RobotEnv
from mgp.errors import ConfigError, SimulationError
from mgp.evaluation.episode import Episode, EpisodeResult, Recording
from mgp.evaluation.missing import NONE, Missing
from mgp.policies.base import Policy


def rollout(
    policy: Policy,
    envs: Sequence[RobotEnv],
    seeds: Sequence[int],
    *,
    missing: Missing = NONE,
    full_length: bool = False,
    recording: Recording | None = None,
    tick: Callable[[list[bool]], None] | None = None,
) -> list[EpisodeResult]:
    """One episode a seed, each in its own environment, all planned for in one batch.

    `missing`: which observations are withheld; their frames are not even cast. A succeeded episode stops unless
    `full_length`: its row is fed its last frames, its actions are dropped.
    `tick` is called after each round with the outcomes of the episodes that ended in it.
    """
    if len(envs) < len(seeds):
        raise ConfigError(f"{len(seeds)} episodes in lock step need as many environments, got {len(envs)}")
    look = policy.history if policy.observation_shapes else 0  # a blind policy costs no looks
    episodes = [
        Episode(env, int(seed), look, missing=missing, full_length=full_length, recording=recording)
        for env, seed in zip(envs, seeds, strict=False)
    ]
    policy.reset([episode.seed for episode in episodes])
    while running := [episode for episode in episodes if not episode.done]:
        actions = plan(policy, episodes)
        for episode, chunk in zip(episodes, actions, strict=True):
            if not episode.done:
                episode.run(chunk)
        if tick is not None:
            tick([episode.success_step is not None for episode in running if episode.done])
    return [episode.result(policy.trace(row)) for row, episode in enumerate(episodes)]


def plan(policy: Policy, episodes: Sequence[Episode]) -> np.ndarray:
    """The policy's actions (B, execution_horizon, A) for the newest frames of each episode, checked."""
    frames = {
        key: np.stack([[frame[key] for frame in episode.frames] for episode in episodes])  # (B, history, ...)
        for key in policy.observation_shapes
    }
    actions = policy.plan(frames, np.array([episode.observed for episode in episodes]))
    size = episodes[0].env.action_space.shape[0]
    expected = (len(episodes), policy.execution_horizon, size)
    if actions.shape != expected:
        raise SimulationError(
            f"{type(policy).__name__} planned actions of shape {actions.shape}, expected {expected} "
            "(episodes, execution horizon, action size): was it trained for this environment?"
        )
    if not np.isfinite(actions).all():
        raise SimulationError(f"{type(policy).__name__} planned NaN or Inf: its weights have most likely diverged")
    return actions
