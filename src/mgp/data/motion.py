"""Commands as motion: what place each stands for, how fast it goes there and how jerkily.

A number of a command is a *place* if it goes on in holding (an absolute target, a gripper), and else a *displacement*,
whose places are its sums. T commands, A numbers of each.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

REST = 3  # steps at rest before and after an episode: a robot starts and ends so


def is_place(hold_command: np.ndarray) -> np.ndarray:
    """(A,) bool from the command that holds, NaN where the last one goes on."""
    return np.isnan(hold_command)


def positions(commands: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(T, A) where each command leads to, displacements from where the first one starts."""
    commands = np.asarray(commands, np.float64)
    return np.where(place, commands, np.cumsum(commands, axis=0))


def velocities(commands: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(T - 1, A) a control step."""
    return np.diff(positions(commands, place), axis=0)


def jerks(commands: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(T - 3, A) a control step cubed: the third difference of the positions."""
    return np.diff(positions(commands, place), n=3, axis=0)


def largest(episodes: Iterable[np.ndarray], place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest velocity and jerk (A,) in any episode, each from rest to rest."""
    fastest = jerkiest = np.zeros(len(place))
    for commands in episodes:
        before, after = (np.where(place, commands[end], 0.0)[None].repeat(REST, axis=0) for end in (0, -1))
        whole = np.concatenate([before, commands, after])
        fastest = np.maximum(fastest, np.abs(velocities(whole, place)).max(0))
        jerkiest = np.maximum(jerkiest, np.abs(jerks(whole, place)).max(0))
    return fastest, jerkiest
