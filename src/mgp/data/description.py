"""What a store says of its recordings, so that training needs no simulator to ask.

    env           name of the environment or of the robot's task, "metaworld/push"
    observation   what was looked at: "state", "cloud", "rgb", ...
    options       of the environment, JSON values
    horizon       steps an episode may take
    hold_action   (A,) the action that keeps the robot where it is; null: the last command goes on there
    actions       "displacement": the first three numbers are a displacement of the hand; or "absolute"
    points        how many triples at the beginning of a state are places, the hand's own first, others of the gripper
                  after it; what follows them is none, as an opening or joint angles. Not said: all of a state that is
                  made of triples, else none

All of them may be missing; one that is there is checked when a store is written and when it is used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mgp.errors import DataError

ACTIONS = ("displacement", "absolute")


def checked_meta(where: str, meta: Mapping[str, Any], width: int) -> dict[str, Any]:
    """The metadata as JSON values, for actions of `width` numbers."""
    meta = dict(meta)
    for key in ("env", "observation"):
        if key in meta and not (isinstance(meta[key], str) and meta[key]):
            raise DataError(f"{where}: {key} = {meta[key]!r} must be a name, as 'mine/task' or 'cloud'")
    if "options" in meta and not isinstance(meta["options"], Mapping):
        raise DataError(f"{where}: options = {meta['options']!r} must be a dictionary; {{}} if there are none")
    horizon = meta.get("horizon", 1)
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise DataError(f"{where}: horizon = {horizon!r} must be a whole number of steps, at least 1")
    if "horizon" in meta:
        meta["horizon"] = int(horizon)
    if meta.get("actions", ACTIONS[0]) not in ACTIONS:
        raise DataError(f"{where}: actions = {meta['actions']!r} must be one of {', '.join(map(repr, ACTIONS))}")
    points = meta.get("points", 0)
    if isinstance(points, bool) or not isinstance(points, int | np.integer) or points < 0:
        raise DataError(
            f"{where}: points = {points!r} must be a whole number of triples, 0 if the hand is not in the state"
        )
    if "points" in meta:
        meta["points"] = int(points)
    if "hold_action" in meta:
        meta["hold_action"] = hold_to_json(hold_command(meta, width, where))
    try:
        return json.loads(json.dumps(meta, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: the metadata must be JSON values ({error}); convert them") from error


def state_places(meta: Mapping[str, Any], width: int) -> int:
    """How many triples of a state of `width` numbers are places, the hand's own first; 0: the hand's is unknown."""
    said = meta.get("points")
    if said is None:
        return 0 if width % 3 else width // 3
    if 3 * said > width:
        raise DataError(f"points = {said} are {3 * said} numbers, a state has {width}: correct points in the metadata")
    return said


def hold_command(meta: Mapping[str, Any], width: int, where: str = "the store") -> np.ndarray:
    """(A,) as policies keep it: `hold_action`, NaN where the last command goes on."""
    given = meta.get("hold_action")
    if given is None:
        raise DataError(
            f"{where} does not say how to hold still: write it with hold_action in its metadata, {width} numbers,"
            " None where the last command goes on"
        )
    try:
        command = np.array([math.nan if value is None else value for value in given], np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: hold_action = {given!r} must be a list of numbers or None ({error})") from error
    if command.shape != (width,) or np.isinf(command).any():
        raise DataError(
            f"{where}: hold_action = {given!r} must be {width} finite numbers, as many as an action has; None where the"
            " last command goes on"
        )
    return command


def hold_to_json(command: np.ndarray) -> list[float | None]:
    """JSON has no NaN."""
    return [None if np.isnan(value) else float(value) for value in command]


def checked_instructions(where: str, instructions: Any, episodes: int) -> list[str]:
    """One text an episode, or none at all."""
    if not isinstance(instructions, Sequence) or isinstance(instructions, str):
        raise DataError(f"{where}: instructions = {instructions!r} must be a list of texts, one for every episode")
    for episode, text in enumerate(instructions):
        if not isinstance(text, str) or not text.strip():
            raise DataError(
                f"{where}: the instruction of episode {episode} is {text!r}; write a text for every episode"
            )
    if instructions and len(instructions) != episodes:
        raise DataError(
            f"{where}: {len(instructions)} instructions for {episodes} episodes; write one for every episode, or none"
        )
    return list(instructions)
