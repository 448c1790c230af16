"""Checks and spaces that the environments share."""

from __future__ import annotations

import numbers

import gymnasium as gym
import numpy as np

from mgp.errors import ConfigError


def floats(*shape: int) -> gym.spaces.Box:
    return gym.spaces.Box(-np.inf, np.inf, shape, np.float32)


def check_range(name: str, value: float, low: int, high: int, kind: type = numbers.Integral) -> None:
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
        what = "a whole number" if kind is numbers.Integral else "a number"
        raise ConfigError(f"{name}={value!r} must be {what} from {low} to {high}; choose one in that range")
