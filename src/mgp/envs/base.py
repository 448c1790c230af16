"""The environment contract: Gymnasium's API, with looking and moving apart.

`step` is `advance` (move the world) then `observe` (look at it). Looking is the dear part when it means casting a
point cloud, so whoever drives the environment may advance several steps and look only at the frames it needs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import gymnasium as gym
import numpy as np

# options of an environment that disturb a sensor or the episode; any other makes it another sensor
DISTURBANCES = ("depth_noise", "camera_shift", "horizon")
Observation = dict[str, np.ndarray]  # keys: "state", and by observation mode "cloud", "rgb", "depth"


class RobotEnv(gym.Env[Observation, np.ndarray]):
    """A seeded episodic task. `info["success"]` is momentary; an episode succeeds if it was true at any step."""

    name: str  # as registered, e.g. "metaworld/assembly"
    horizon: int  # control steps in an episode; `truncated` is true at the last one
    options: dict[str, Any]  # with name and observation, what `make_env` needs to build it again; JSON values
    hold_action: np.ndarray  # (A,) the action that keeps the robot where it is
    hold_last: tuple[int, ...] = ()  # action dimensions whose last command goes on while holding, as a gripper's force
    actions: Literal["displacement", "absolute"] = "displacement"  # the first three numbers: of the hand; or places
    unit: float = 1.0  # metres that 1 stands for in the first three numbers of an action
    # (A,) deviation of the pushes that the robot gets while the expert demonstrates (data/disturbance.py); empty: none
    disturbance: tuple[float, ...] = ()
    moves_from: int | None = None  # control steps taken when every episode's scene begins to move by itself, if it does
    shifted_at: int | None = None  # the same of the present episode's, where it differs; None: not yet, or never
    static_twin: str | None = None  # the environment that differs only in that nothing moves by itself, seed by seed
    observation_space: gym.spaces.Dict  # type: ignore[assignment]
    action_space: gym.spaces.Box

    @abstractmethod
    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Observation, dict]:
        """Start an episode; the same seed gives a bit-identical one."""

    @abstractmethod
    def advance(self, action: np.ndarray) -> tuple[float, bool, bool, dict[str, Any]]:
        """Move one control step: (reward, terminated, truncated, info)."""

    @abstractmethod
    def observe(self) -> Observation:
        """Look at the present state; free of side effects."""

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        reward, terminated, truncated, info = self.advance(action)
        return self.observe(), reward, terminated, truncated, info

    def hold_command(self) -> np.ndarray:
        """(A,) as policies keep it: `hold_action`, NaN where the last command goes on."""
        command = np.asarray(self.hold_action, dtype=np.float32).copy()
        command[list(self.hold_last)] = np.nan
        return command

    def expert(self) -> Callable[[], np.ndarray]:
        """A scripted expert for the present episode: each call gives the action for the present state."""
        raise NotImplementedError(f"{self.name} has no scripted expert")

    def picture(self, size: int = 160) -> np.ndarray:
        """An RGB picture (size, size, 3) uint8 of the scene for people to look at, without GL."""
        raise NotImplementedError(f"{self.name} has no picture")
