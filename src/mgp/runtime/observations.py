"""The one door through which an observation reaches a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mgp.errors import ObservationError, UnknownNameError
from mgp.policies.base import Frame, Policy, check_observation
from mgp.runtime.request import INSTRUCTION


def admit(policy: Policy, observation: Mapping[str, Any]) -> Frame:
    """The frame as the policy looks at it, or an error that names what is wrong; the policy sees nothing of that."""
    frame: dict[str, Any] = {}
    for key, value in policy.seen(observation).items():
        # as the network computes: a number that only float64 can hold is refused below as the Inf that it becomes
        with np.errstate(over="ignore"):
            frame[key] = value.astype(np.float32) if value.dtype.kind == "f" else value
    check_observation(frame, policy.observation_shapes, uint8=policy.observation_uint8)
    known = getattr(getattr(policy, "spec", None), "instructions", ())
    if known:
        text = observation.get(INSTRUCTION)
        if not isinstance(text, str):
            raise ObservationError(f"observation has no 'instruction', one of {list(known)}: say what is to be done")
        if text not in known:
            raise UnknownNameError("instruction", text[:64], known)
        frame[INSTRUCTION] = text
    return frame
