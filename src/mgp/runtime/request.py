"""What a client asks for: an observation by its keys and, under "mgp", what openpi's protocol has no words for.

A stock client sends the observation alone. All of the extension may be left out:

    reset      True: a new episode begins with this observation
    episode    a name or number of the client's; another one than before begins a new episode
    seed       of the episode that begins, for policies that draw
    step       control step of the observation; a hole means frames that never came, no progress one that came twice
    executed   actions run of those that the last reply held; else the steps since, else `steps`, else all of them
    missing    True: there is no observation this time
    time       when it was taken, and
    sent       when it is sent, in seconds of the client's own monotonic clock: their difference is its age
    deadline   milliseconds after which nobody waits for a new plan any more
    beyond     actions wanted beyond the time of the next plan, to go on with should that one be late

A stock client says the same of all its requests in the address: ws://HOST:PORT/?steps=1&seed=3, where `steps` is the
number of actions that it runs of each reply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from mgp.errors import RequestError, UnknownNameError

EXTENSION = "mgp"
PROMPT, INSTRUCTION = "prompt", "instruction"  # openpi's word and ours
NAME = 128  # characters of an episode's name
COUNT = 2**31  # below it: steps and actions
SEED = 2**62


@dataclass(frozen=True)
class Request:
    observation: dict[str, Any]
    reset: bool = False
    episode: str | int | None = None
    seed: int | None = None
    step: int | None = None
    executed: int | None = None
    missing: bool = False
    time: float | None = None
    sent: float | None = None
    deadline: float | None = None
    beyond: int = 0


@dataclass(frozen=True)
class Address:
    """What the address says of all requests of a connection."""

    steps: int | None = None
    seed: int = 0


def parse_request(message: dict[str, Any]) -> Request:
    observation = {key: value for key, value in message.items() if key != EXTENSION}
    for key, value in observation.items():
        if not isinstance(value, np.ndarray | np.generic | int | float | str):
            raise RequestError(f"{key[:64]!r} is a {type(value).__name__}: send an array, a number or a text")
    if PROMPT in observation:
        observation.setdefault(INSTRUCTION, observation.pop(PROMPT))
    given = message.get(EXTENSION, {})
    if not isinstance(given, dict):
        raise RequestError(f"{EXTENSION!r} is a {type(given).__name__}: send a dictionary")
    known = [one.name for one in fields(Request) if one.name != "observation"]
    for name in given:
        if name not in known:
            raise RequestError(str(UnknownNameError(f"word under {EXTENSION!r}", name[:64], known)))
    return Request(observation, **{name: _checked(name, value) for name, value in given.items() if value is not None})


def parse_address(query: str) -> Address:
    """`steps=1&seed=3`"""
    known = [one.name for one in fields(Address)]
    given = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            raise RequestError(str(UnknownNameError("word in the address", name[:64], known)))
        given[name] = _checked(name, int(text) if text.isdecimal() and len(text) < 20 else text[:64])
    return Address(**given)


def _checked(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    whole = isinstance(value, int) and not isinstance(value, bool)
    if name in ("reset", "missing"):
        good, wanted = isinstance(value, bool), "True or False"
    elif name == "episode":
        good, wanted = whole or (isinstance(value, str) and len(value) <= NAME), f"a number or at most {NAME} letters"
    elif name in ("time", "sent", "deadline"):
        good, wanted = isinstance(value, int | float) and math.isfinite(value), "a finite number"
    else:
        most = SEED if name == "seed" else COUNT
        good, wanted = whole and (name == "steps") <= value < most, f"a whole number from {int(name == 'steps')} on"
    if not good:
        raise RequestError(f"{name} = {str(value)[:64]!r} must be {wanted}")
    return value
