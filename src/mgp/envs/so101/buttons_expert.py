"""A scripted expert for the button tasks: travel round the rail, reach over the cap, press, come up again.

A demonstration is planned in the rail's coordinates (arc length, reach, angle to the carriage's heading, height),
smoothly and all at once, and written down as targets of the end effector. Speed, heights, the place where the carriage
stops, the spot on the cap and all durations are drawn anew for each press, so that no two demonstrations are alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mgp.envs.so101 import rail
from mgp.envs.so101.controller import SUBSTEPS, TIMESTEP, action_of
from mgp.envs.so101.motion import Path, ease

RATE = round(1 / (TIMESTEP * SUBSTEPS))  # control steps a second
ACCELERATION = 0.8  # m/s2 of the carriage
START_REACH, START_HEIGHT = 0.17, 0.08  # metres from the pan axis and above the table
# Of the fingertip site; the finger itself ends 6 mm lower. A cap is at 0.036, counts as pressed at 0.030 and stops at
# 0.026: the target lies below the stop, so that a few millimetres of error still press.
PRESS_HEIGHT = 0.0245
FURTHEST = 0.246  # metres from the rail that a button may be, straight ahead: over it the arm is nearly stretched


class RailPath(Path):
    """Poses are rail coordinates (s, reach, angle, height)."""

    def travel(self, goal: Sequence[float], carried: float, speed: float, reaching: int) -> None:
        """Along the rail to a pose; the arm is drawn in to `carried` on the way, and reaches out before the end."""
        start, end = self.pose, np.asarray(goal, float)
        way = trapezoid(end[0] - start[0], speed)
        reaching = min(reaching, len(way) // 2)
        folded = np.array([carried, 0.0, end[3]])
        for i, moved in enumerate(way, 1):
            arm = start[1:] + ease(i / reaching) * (folded - start[1:])
            left = len(way) - i
            if left < reaching:
                arm = folded + ease(1 - left / reaching) * (end[1:] - folded)
            self.steps.append(np.array([start[0] + moved, *arm]))
        self.pose = end


def demonstrate(
    places: Sequence[tuple[float, float]],
    tip: np.ndarray,
    carriage: tuple[np.ndarray, float],
    random: np.random.Generator,
) -> np.ndarray:
    """Actions (T, 6) that press the buttons at `places` in that order, from the present pose."""
    position, yaw = carriage
    s = _unwrapped(rail.nearest(*position), yaw)
    out = tip[:2] - position
    path = RailPath(np.array([s, np.hypot(*out), np.arctan2(out[1], out[0]) - yaw, tip[2]]))
    path.stay(int(random.integers(3, 8)))
    return _press(path, places, random)


def go_on(
    places: Sequence[tuple[float, float]],
    target: np.ndarray,
    carriage: tuple[np.ndarray, float],
    random: np.random.Generator,
) -> np.ndarray:
    """Actions (T, 6) from what was last commanded, (5,) as `Controller.target`, to buttons that have moved."""
    x, y, height, heading, _ = target
    now = _unwrapped(rail.nearest(*carriage[0]), carriage[1])
    s = now + rail.shorter(now, rail.behind(x, y, heading))
    base_x, base_y, yaw = rail.pose(s)
    path = RailPath(np.array([s, np.hypot(x - base_x, y - base_y), _wrap(heading - yaw), height]))
    return _press(path, places, random)


def _press(path: RailPath, places: Sequence[tuple[float, float]], random: np.random.Generator) -> np.ndarray:
    speed = random.uniform(0.27, 0.33)
    for place in places:
        target = np.array(place) + random.uniform(-0.005, 0.005, 2)
        stop, reach, angle = _station(path.pose[0], target, random)
        hover = random.uniform(0.062, 0.078)
        carried, reaching = random.uniform(0.15, 0.19), int(random.integers(13, 19))
        path.travel([stop, reach, angle, hover], carried, speed * random.uniform(0.95, 1.05), reaching)
        path.stay(int(random.integers(2, 5)))  # the arm catches up
        path.move([stop, reach, angle, PRESS_HEIGHT + random.uniform(-0.001, 0.001)], int(random.integers(10, 15)))
        path.stay(int(random.integers(3, 7)))
        path.move([stop, reach, angle, random.uniform(0.062, 0.078)], int(random.integers(9, 13)))
    path.stay(3)
    return np.stack([_action(*pose) for pose in path.steps])


def _station(now: float, target: np.ndarray, random: np.random.Generator) -> tuple[float, float, float]:
    """Where to stop for a button, the nearer of the sides it can be reached from: (s, reach, angle)."""
    sides = (rail.nearest(np.copysign(rail.HALF, target[0]), target[1]),
             rail.nearest(target[0], np.copysign(rail.HALF, target[1])))  # fmt: skip
    ways = [
        rail.shorter(now, side)
        for side, across in zip(sides, np.abs(target), strict=True)
        if rail.HALF - across < FURTHEST
    ]
    stop = now + min(ways, key=abs) + random.uniform(-0.03, 0.03)
    x, y, yaw = rail.pose(stop)
    out = target - [x, y]
    return stop, float(np.hypot(*out)), _wrap(np.arctan2(out[1], out[0]) - yaw)


def _unwrapped(s: float, yaw: float) -> float:
    """The same place on the rail, with the turns that the carriage has made, as its rotation tells."""
    return s + rail.LENGTH * round((yaw - rail.pose(s)[2]) / (2 * np.pi))


def _wrap(angle: float) -> float:
    return float((angle + np.pi) % (2 * np.pi) - np.pi)


def _action(s: float, reach: float, angle: float, height: float) -> np.ndarray:
    x, y, yaw = rail.pose(s)
    heading = yaw + angle
    return action_of(x + reach * np.cos(heading), y + reach * np.sin(heading), height, heading, 0)


def trapezoid(distance: float, speed: float) -> np.ndarray:
    """Way travelled (T,) at each control step, with bounded acceleration, ending at `distance`."""
    length = abs(distance)
    speed = min(speed, np.sqrt(length * ACCELERATION))
    ramp = speed / ACCELERATION if length > 0 else 0.0
    total = (length / speed + ramp) if length > 0 else 0.0
    steps = max(int(np.ceil(total * RATE)), 2)
    time = np.arange(1, steps + 1) * total / steps
    rising = 0.5 * ACCELERATION * np.minimum(time, ramp) ** 2
    falling = 0.5 * ACCELERATION * np.maximum(time - (total - ramp), 0.0) ** 2
    way = rising + speed * np.maximum(time - ramp, 0.0) - falling
    return np.copysign(way, distance)
