"""Uniform random actions: the floor every learned policy has to beat."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mgp.envs.base import RobotEnv
from mgp.errors import CheckpointError, ConfigError
from mgp.policies.base import Policy

FILE = "random_policy.json"


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
        self._generators: list[np.random.Generator] = []

    @classmethod
    def for_env(cls, env: RobotEnv, execution_horizon: int = 4) -> RandomPolicy:
        return cls(env.action_space.low, env.action_space.high, execution_horizon)

    def reset(self, seeds: Sequence[int]) -> None:
        self._forget()
        self._generators = [np.random.default_rng(int(seed)) for seed in seeds]

    def plan(self, observation: dict[str, np.ndarray], observed: np.ndarray | None = None) -> np.ndarray:
        shape = (self.execution_horizon, self.low.size)
        draws = [generator.random(shape, dtype=np.float32) for generator in self._generators]
        return self.low + (self.high - self.low) * np.stack(draws)  # (B, execution_horizon, A)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        content = {"low": self.low.tolist(), "high": self.high.tolist(), "execution_horizon": self.execution_horizon}
        (folder / FILE).write_text(json.dumps(content))

    @classmethod
    def load(cls, folder: Path) -> RandomPolicy:
        try:
            content = json.loads((folder / FILE).read_text())
            return cls(content["low"], content["high"], content["execution_horizon"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{folder / FILE} holds no random policy ({error}): save one there first") from error
