"""The closed rail round the table: a square with rounded corners, so that the carriage's rotation is continuous."""

from __future__ import annotations

import numpy as np

HALF = 0.43  # metres from the centre to each side
RADIUS = 0.10  # of the corners
STRAIGHT = HALF - RADIUS  # half the length of a straight
ARC = np.pi / 2 * RADIUS
SIDE = 2 * STRAIGHT + ARC  # from the middle of one side to that of the next
LENGTH = 4 * SIDE


def pose(s: float) -> tuple[float, float, float]:
    """(x, y, yaw) at arc length s: 0 is the middle of the side at y < 0, counter-clockwise; yaw looks inwards.

    s is not wrapped: yaw grows by a full turn each time round, so that it never jumps.
    """
    side, along = divmod(s + STRAIGHT, SIDE)  # each side: its straight, then the corner after it
    if along <= 2 * STRAIGHT:
        x, y, turn = along - STRAIGHT, -HALF, 0.0
    else:
        turn = (along - 2 * STRAIGHT) / RADIUS
        x, y = STRAIGHT + RADIUS * np.sin(turn), -STRAIGHT - RADIUS * np.cos(turn)
    quarter = int(side) % 4
    for _ in range(quarter):
        x, y = -y, x
    return x, y, np.pi / 2 * (side + 1) + turn


def nearest(x: float, y: float) -> float:
    """Arc length in [-SIDE / 2, LENGTH - SIDE / 2) of a point on the rail, or of the one on it in that direction."""
    quarter = 0
    while not (y <= 0 and -abs(y) <= x < abs(y)) and quarter < 4:  # turn it until its side is the one at y < 0
        x, y, quarter = y, -x, quarter + 1
    if abs(x) <= STRAIGHT:
        along = x
    else:
        turn = np.arctan2(abs(x) - STRAIGHT, -y - STRAIGHT)
        along = np.copysign(STRAIGHT + RADIUS * turn, x)
    return float(quarter * SIDE + along)


def behind(x: float, y: float, heading: float) -> float:
    """Where the carriage stands if its arm reaches (x, y) along `heading`: where the line backwards meets the rail.

    The rail is convex, so inside it there is exactly one such place, and it moves continuously with all three.
    """
    back = -np.cos(heading), -np.sin(heading)
    steps = [(np.copysign(HALF, b) - p) / b for p, b in zip((x, y), back, strict=True) if abs(b) > 1e-9]
    t = min(steps)
    hit = x + t * back[0], y + t * back[1]
    if min(abs(hit[0]), abs(hit[1])) > STRAIGHT:  # beyond the corner's arc, which it must have crossed
        centre = np.copysign(STRAIGHT, hit[0]), np.copysign(STRAIGHT, hit[1])
        from_centre = x - centre[0], y - centre[1]
        half = from_centre[0] * back[0] + from_centre[1] * back[1]
        square = half**2 - (from_centre[0] ** 2 + from_centre[1] ** 2 - RADIUS**2)
        t = -half + np.sqrt(max(square, 0.0))
        hit = x + t * back[0], y + t * back[1]
    return nearest(*hit)


def shorter(start: float, goal: float) -> float:
    """Signed way from one arc length to another, the shorter way round."""
    return (goal - start + LENGTH / 2) % LENGTH - LENGTH / 2
