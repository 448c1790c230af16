"""Uniform random actions: the floor every learned policy has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mgp.envs.base import RobotEnv
from mgp.errors import ConfigError
from mgp.policies.base import Chunk, Frame, Memory, Policy


@dataclass
class RandomMemory(Memory):
    generators: list[np.random.Generator]


class RandomPolicy(Policy):
    """Each action uniform in the action box; an episode's actions follow from its seed alone."""

    history = 1
    observation_shapes: dict[str, tuple[int, ...]] = {}  # noqa: RUF012 (contract): it looks at nothing

    def __init__(
        self, low: Sequence[float] | np.ndarray, high: Sequence[float] | np.ndarray, execution_horizon: int = 4
    ):
        self.low, self.high = np.asarray(low, np.float32), np.asarray(high, np.float32)  # (A,)
        if self.low.ndim != 1 or self.low.shape != self.high.shape or not (self.low <= self.high).all():
            raise ConfigError(f"action box low={low} high={high} is no box: give two vectors with low <= high")
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all()):
            raise ConfigError(f"action box low={low} high={high} is unbounded: a uniform draw needs finite limits")
        if execution_horizon < 1:
            raise ConfigError(f"execution_horizon={execution_horizon}: at least 1 action a plan is needed")
        self.execution_horizon = execution_horizon

    @classmethod
    def for_env(cls, env: RobotEnv, execution_horizon: int = 4) -> RandomPolicy:
        return cls(env.action_space.low, env.action_space.high, execution_horizon)

    def begin(self, seeds: Sequence[int]) -> RandomMemory:
        generators = [np.random.default_rng(int(seed)) for seed in seeds]
        return RandomMemory(tuple(seeds), np.zeros((len(seeds), self.low.size), np.float32), generators)

    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        assert isinstance(memory, RandomMemory)
        shape = (self.execution_horizon, self.low.size)
        draws = [generator.random(shape, dtype=np.float32) for generator in memory.generators]
        return Chunk(self.low + (self.high - self.low) * np.stack(draws), self.execution_horizon)
