"""A tiny environment and policy that write down how they are used."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np

from mgp.envs.base import RobotEnv
from mgp.errors import UnknownNameError
from mgp.policies.base import Chunk, Memory, PlanTrace, Policy


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


@dataclass
class ToyMemory(Memory):
    generators: list[np.random.Generator]
    plans: int = 0


class ToyPolicy(Policy):
    """Walks towards the goal, with noise of the episode's own generator; holds still without an observation."""

    observation_shapes = {"state": (3,)}  # noqa: RUF012

    def __init__(self, history: int = 2, execution_horizon: int = 5, noise: float = 0.1):
        self.history, self.execution_horizon, self.noise = history, execution_horizon, noise
        self.frames_seen: list[np.ndarray] = []  # (B, history, 3) of each plan
        self.observed: list[np.ndarray] = []

    def begin(self, seeds):
        still = np.zeros((len(seeds), 1), np.float32)
        return ToyMemory(tuple(seeds), still, [np.random.default_rng(seed) for seed in seeds])

    def plan(self, observation, memory, observed=None, executed=None):
        state = observation["state"]
        self.frames_seen.append(state)
        self.observed.append(observed)
        memory.plans += 1
        noise = np.stack([g.normal(size=(self.execution_horizon, 1)) for g in memory.generators])
        towards = np.sign(state[:, -1:, 1:2] - state[:, -1:, 0:1])  # (B, 1, 1)
        actions = np.clip(towards + self.noise * noise, -1, 1)
        seen = np.ones(len(actions), bool) if observed is None else observed
        return Chunk(actions * seen[:, None, None], self.execution_horizon)

    def trace(self, memory, episode):
        tokens = np.arange(memory.plans * 4).reshape(memory.plans, 4)
        return PlanTrace(np.arange(memory.plans), tokens, tokens / 100, tokens % 3)


def make_toy(name: str = "toy/line", observation: str = "state", **options) -> ToyEnv:
    return ToyEnv(**options)


def load_broken() -> Policy:
    raise UnknownNameError("policy", "mpg", ["mgp"])


class DyingPolicy(ToyPolicy):
    """Takes its process with it, as the kernel does when memory runs out."""

    def plan(self, observation, memory, observed=None, executed=None):
        import os

        os._exit(9)
