"""A recorded episode as an environment: what policies are timed on, without a simulator's own time and noise."""

from __future__ import annotations

import math
import time
from typing import Any

import gymnasium as gym
import numpy as np

from mgp.data.demonstrations import Demonstrations
from mgp.data.spec import DataSpec
from mgp.envs.base import Observation, RobotEnv


class Replay(RobotEnv):
    """The first demonstration's frames, whatever is done; the last one stays until the episode's horizon."""

    def __init__(self, demonstrations: Demonstrations):
        spec = DataSpec.of(demonstrations)
        self.name, self.horizon, self.options = "replay", spec.horizon, {}
        self.length = int(demonstrations.ends[0])
        self.recorded = {key: np.asarray(demonstrations.arrays[key][: self.length]) for key in spec.shapes}
        self.hold_action = np.zeros(spec.action, np.float32)
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (spec.action,), np.float32)
        self.observation_space = gym.spaces.Dict(
            {key: gym.spaces.Box(-np.inf, np.inf, shape, np.float32) for key, shape in spec.shapes.items()}
        )
        self.deadline = math.inf  # of `time.perf_counter`: an episode ends there too, for policies too slow for a whole
        self.steps = 0

    @property
    def whole(self) -> bool:
        """Whether the last episode went to its end."""
        return self.steps >= self.horizon

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Observation, dict]:
        self.steps = 0
        return self.observe(), {"success": False}

    def advance(self, action: np.ndarray) -> tuple[float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return 0.0, False, self.whole or time.perf_counter() > self.deadline, {"success": False}

    def observe(self) -> Observation:
        at = min(self.steps, self.length - 1)
        return {key: frames[at] for key, frames in self.recorded.items()}
