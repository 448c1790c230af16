"""A tiny environment and policy that write down how they are used."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np

from mgp.envs.base import RobotEnv
from mgp.errors import UnknownNameError
from mgp.policies.base import PlanTrace, Policy


class ToyEnv(RobotEnv):
    """A point on a line, to be brought to a seeded goal. The state is (position, goal, step)."""

    def __init__(self, horizon: int = 20, reach: float = 0.05):
        self.name, self.horizon, self.reach = "toy/line", horizon, reach
        self.hold_action = np.zeros(1, np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (1,))
        self.observation_space = gym.spaces.Dict({"state": gym.spaces.Box(-9, 99, (3,))})
        self.looks: list[int] = []  # the step of every observation
        self.closed = False

    def reset(self, *, seed=None, options=None):
        self.goal = np.random.default_rng(seed).uniform(0.5, 2.0)
        self.position, self.steps = 0.0, 0
        return self.observe(), {}

    def advance(self, action):
        self.position += 0.1 * float(np.clip(action, -1, 1)[0])
        self.steps += 1
        return 0.0, False, self.steps >= self.horizon, {"success": abs(self.position - self.goal) < self.reach}

    def observe(self):
        self.looks.append(self.steps)
        return {"state": np.array([self.position, self.goal, self.steps], np.float32)}

    def picture(self, size=160):
        return np.full((size, size, 3), self.steps, np.uint8)

    def close(self):
        self.closed = True


class ToyPolicy(Policy):
    """Walks towards the goal, with noise of the episode's own generator; holds still without an observation."""

    observation_shapes = {"state": (3,)}  # noqa: RUF012

    def __init__(self, history: int = 2, execution_horizon: int = 5, noise: float = 0.1):
        self.history, self.execution_horizon, self.noise = history, execution_horizon, noise
        self.seen: list[np.ndarray] = []  # (B, history, 3) of each plan
        self.observed: list[np.ndarray] = []

    def reset(self, seeds):
        self.generators = [np.random.default_rng(seed) for seed in seeds]
        self.plans = 0

    def plan(self, observation, observed=None):
        state = observation["state"]
        self.seen.append(state)
        self.observed.append(observed)
        self.plans += 1
        noise = np.stack([g.normal(size=(self.execution_horizon, 1)) for g in self.generators])
        towards = np.sign(state[:, -1:, 1:2] - state[:, -1:, 0:1])  # (B, 1, 1)
        actions = np.clip(towards + self.noise * noise, -1, 1)
        return actions if observed is None else actions * observed[:, None, None]

    def trace(self, episode):
        tokens = np.arange(self.plans * 4).reshape(self.plans, 4)
        return PlanTrace(np.arange(self.plans), tokens, tokens / 100, tokens % 3)

    def save(self, folder: Path):
        raise NotImplementedError

    @classmethod
    def load(cls, folder: Path):
        raise NotImplementedError


def make_toy(name: str = "toy/line", observation: str = "state", **options) -> ToyEnv:
    return ToyEnv(**options)


def load_broken() -> Policy:
    raise UnknownNameError("policy", "mpg", ["mgp"])


class DyingPolicy(ToyPolicy):
    """Takes its process with it, as the kernel does when memory runs out."""

    def plan(self, observation, observed=None):
        import os

        os._exit(9)
