"""A toy scene for tiny MGP networks: as wide as the synthetic demonstrations, and able to move by itself."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import small
from mgp.envs.base import RobotEnv

MOVES_FROM = 9  # between the replannings after 8 and after 12 steps


class WaveEnv(RobotEnv):
    """The state is (7,) a seeded wave that the actions shift; in "toy/moving" it drifts after MOVES_FROM steps."""

    def __init__(self, name: str, horizon: int = small.HORIZON):
        self.name, self.horizon = name, horizon
        if name == "toy/moving":
            self.moves_from, self.static_twin = MOVES_FROM, "toy/static"
        self.hold_action = np.zeros(small.ACTION, np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (small.ACTION,))
        self.observation_space = gym.spaces.Dict({"state": gym.spaces.Box(-9, 9, (small.STATE["state"],))})
        self.actions: list[np.ndarray] = []  # of all episodes, in order

    def reset(self, *, seed=None, options=None):
        self.phase, self.steps, self.shift = np.random.default_rng(seed).uniform(0, 6), 0, 0.0
        return self.observe(), {}

    def advance(self, action):
        self.actions.append(np.array(action))
        self.shift += 0.05 * float(action[0])
        self.steps += 1
        return 0.0, False, self.steps >= self.horizon, {"success": self.steps == 22 and self.phase < 3}

    def observe(self):
        drift = max(self.steps - (self.moves_from or 99), 0)
        wave = np.sin(self.steps / 8 + self.phase + np.arange(small.STATE["state"]))
        return {"state": (0.3 * wave + self.shift + 0.5 * drift).astype(np.float32)}


def make_wave(name: str, observation: str = "state", **options) -> WaveEnv:
    return WaveEnv(name, **options)
