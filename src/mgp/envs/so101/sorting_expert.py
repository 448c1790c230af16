"""A scripted expert for the sorting task: grasp the towel across its width, carry it over the basket, let go."""

from __future__ import annotations

import numpy as np

from mgp.envs.so101.controller import action_of
from mgp.envs.so101.motion import Path
from mgp.envs.so101.workbench import BASE, TOWEL

START = (0.0, -0.03, 0.10)  # of the fingertip
WIDE, SHUT = 0.62, 0.05  # gripper: 60 mm between the tips, and less than the towel is wide, so that it is squeezed
RELEASE = 0.50  # gripper: the towel holds it open at 0.28
CLEARANCE = 0.008  # metres between the fixed jaw and the towel
GRASP_HEIGHT = 0.015


def demonstrate(
    towel: np.ndarray, turn: float, basket: tuple[float, float], tip: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Actions (T, 6) from the present pose. Poses are (azimuth, reach, height, tool's yaw, gripper) round the arm."""
    path = Path(np.array([*_polar(tip[:2]), tip[2], np.pi / 2, 0.0]))
    path.stay(int(random.integers(2, 6)))
    return _sort(path, towel, turn, basket, random)


def go_on(
    towel: np.ndarray, turn: float, basket: tuple[float, float], target: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Actions (T, 6) from the pose that was last commanded, (5,) as `Controller.target`, to a towel that has moved."""
    return _sort(Path(np.array([*_polar(target[:2]), *target[2:]])), towel, turn, basket, random)


def _sort(
    path: Path, towel: np.ndarray, turn: float, basket: tuple[float, float], random: np.random.Generator
) -> np.ndarray:
    yaw = np.pi / 2 + turn + random.uniform(-0.03, 0.03)
    # the site is at the fixed jaw, so the towel lies to the side where the jaws open
    across = np.array([np.cos(yaw), np.sin(yaw)])
    spot = towel[:2] - (TOWEL[1] + CLEARANCE + random.uniform(-0.002, 0.002)) * across
    spot += random.uniform(-0.01, 0.01) * np.array([-across[1], across[0]])
    wide, above = WIDE + random.uniform(-0.04, 0.04), random.uniform(0.055, 0.07)
    grasp = [*_polar(spot), GRASP_HEIGHT + random.uniform(-0.002, 0.002), yaw]
    path.move([*grasp[:2], above, yaw, wide], int(random.integers(13, 19)))
    path.move([*grasp, wide], int(random.integers(10, 14)))
    path.move([*grasp, SHUT], int(random.integers(7, 10)))
    path.stay(int(random.integers(2, 5)))
    carry = random.uniform(0.095, 0.105)
    path.move([*grasp[:2], carry, yaw, SHUT], int(random.integers(10, 14)))
    drop = np.array(basket) + random.uniform(-0.012, 0.012, 2)
    azimuth, reach = _polar(drop)
    turned = yaw + azimuth - grasp[0]  # the towel turns with the arm
    azimuth, reach = _polar(drop - TOWEL[1] * np.array([np.cos(turned), np.sin(turned)]))
    path.move([azimuth, reach, carry, turned, SHUT], int(random.integers(21, 28)))
    low = random.uniform(0.068, 0.075)
    path.move([azimuth, reach, low, turned, SHUT], int(random.integers(6, 9)))
    path.move([azimuth, reach, low, turned, RELEASE], int(random.integers(5, 8)))
    path.move([azimuth, reach, carry, turned, RELEASE], int(random.integers(8, 12)))
    return np.stack([_action(*pose) for pose in path.steps])


def _polar(place: np.ndarray) -> tuple[float, float]:
    """Azimuth and reach of a place as the arm has them."""
    out = np.asarray(place) - BASE
    return float(np.arctan2(out[1], out[0])), float(np.hypot(*out))


def _action(azimuth: float, reach: float, height: float, yaw: float, gripper: float) -> np.ndarray:
    return action_of(BASE[0] + reach * np.cos(azimuth), BASE[1] + reach * np.sin(azimuth), height, yaw, gripper)
