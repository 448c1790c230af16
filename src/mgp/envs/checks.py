"""Checks and spaces that the environments share."""

from __future__ import annotations

import numbers

import gymnasium as gym
import numpy as np

from mgp.errors import ConfigError, SimulationError


def floats(*shape: int) -> gym.spaces.Box:
    return gym.spaces.Box(-np.inf, np.inf, shape, np.float32)


def check_range(name: str, value: float, low: int, high: int, kind: type = numbers.Integral) -> None:
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
