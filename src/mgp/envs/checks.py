"""Checks and spaces that the environments share."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np

from mgp.errors import ConfigError, SimulationError, UnknownNameError

CLOUDS = ("camera", "oracle", "paper")
Look = Callable[[mujoco.MjData, np.ndarray, tuple[int, int]], np.ndarray]  # data, hand (3,), (seed, step) to a cloud


def floats(*shape: int) -> gym.spaces.Box:
    return gym.spaces.Box(-np.inf, np.inf, shape, np.float32)


def observation_space(mode: str, state: int, cloud: tuple[int, int], size: int) -> gym.spaces.Dict:
    """A state of `state` numbers and what the mode adds: a cloud of (points, columns), a picture of `size` pixels."""
    added: dict[str, dict[str, gym.Space]] = {
        "state": {},
        "cloud": {"cloud": floats(*cloud)},
        "rgb": {"rgb": gym.spaces.Box(0, 255, (size, size, 3), np.uint8)},
        "depth": {"depth": floats(size, size)},
    }
    return gym.spaces.Dict({"state": floats(state), **added[mode]})


def cloud_options(cloud: str, points: int, depth_noise: float, camera_shift: float) -> dict[str, Any]:
    """The options of a cloud observation, checked, as `make_env` takes them again."""
    if cloud not in CLOUDS:
        raise UnknownNameError("cloud", str(cloud), CLOUDS)
    check_range("points", points, 1, 8192)
    for name, value in (("depth_noise", depth_noise), ("camera_shift", camera_shift)):
        check_range(name, value, 0, 0.1, numbers.Real)
        if value > 0 and cloud == "oracle":
            raise ConfigError(
                f"{name}={value!r} must be 0 with cloud='oracle', which is no depth image; choose cloud='camera'"
            )
    noise, shift = float(depth_noise), float(camera_shift)
    return {"cloud": cloud, "points": int(points), "depth_noise": noise, "camera_shift": shift}


def check_options(env: type, family: str, options: Iterable[str]) -> None:
    """Options are those arguments of an environment's class that its name does not give."""
    valid = inspect.signature(env).parameters.keys() - {"task", "observation"}
    for name in options:
        if name not in valid:
            raise UnknownNameError(f"option of {family} environments", name, valid)


def refuse_reset_options(name: str, options: dict | None) -> None:
    """Episodes differ by seed alone; an option that did nothing would not be noticed."""
    if options:
        raise ConfigError(
            f"{name}.reset takes no options, got {sorted(map(str, options))}; give a seed, and options when it is made"
        )


def check_range(name: str, value: float, low: float, high: float, kind: type = numbers.Integral) -> None:
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
        what = "a whole number" if kind is numbers.Integral else "a number"
        raise ConfigError(f"{name}={value!r} must be {what} from {low} to {high}; choose one in that range")


def checked_action(name: str, action: np.ndarray, width: int) -> np.ndarray:
    """The action as `width` finite numbers (float64); anything else is refused before it reaches the simulator."""
    try:
        action = np.asarray(action, np.float64)
    except (TypeError, ValueError) as error:
        raise SimulationError(f"{name} takes actions of {width} numbers, got {action!r}") from error
    if action.shape != (width,) or not np.isfinite(action).all():
        raise SimulationError(
            f"{name} takes actions of {width} finite numbers, got shape {action.shape} with values "
            f"{action.ravel()[:8].tolist()}; check the policy's output"
        )
    return action
