"""A batch of episodes in lock step, in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mgp.envs.base import RobotEnv
from mgp.errors import ConfigError, SimulationError
from mgp.evaluation.episode import Episode, EpisodeResult, Recording
from mgp.evaluation.missing import NONE, Missing
from mgp.policies.base import Policy
from mgp.policies.driver import Driver


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
    episodes = [
        Episode(env, int(seed), missing=missing, full_length=full_length, recording=recording)
        for env, seed in zip(envs, seeds, strict=False)
    ]
    driver = Driver(policy, [episode.seed for episode in episodes], trace=True)
    for row, episode in enumerate(episodes):
        driver.see(row, episode.first)
    while running := [episode for episode in episodes if not episode.done]:
        actions = plan(driver, episodes)
        for row, episode in enumerate(episodes):
            if not episode.done:
                episode.run(driver, row, actions[row])
        if tick is not None:
            tick([episode.success_step is not None for episode in running if episode.done])
    return [episode.result(policy.trace(driver.memory, row)) for row, episode in enumerate(episodes)]


def plan(driver: Driver, episodes: Sequence[Episode]) -> np.ndarray:
    """The actions to run now (B, run, A), checked."""
    chunk, name = driver.plan(), type(driver.policy).__name__
    size = episodes[0].env.action_space.shape[0]
    expected = (len(episodes), size)
    if (chunk.actions.shape[0], *chunk.actions.shape[2:]) != expected or not 0 < chunk.run <= chunk.actions.shape[1]:
        raise SimulationError(
            f"{name} planned actions of shape {chunk.actions.shape}, {chunk.run} of them to run; expected {expected[0]}"
            f" episodes and {size} numbers an action: was it trained for this environment?"
        )
    actions = driver.take(chunk.run)
    if not np.isfinite(actions).all():
        raise SimulationError(f"{name} planned NaN or Inf: its weights have most likely diverged")
    return actions
