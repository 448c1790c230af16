"""What a server says of its policy before it is asked: enough for a client to send what is wanted, and to hold."""

from __future__ import annotations

from typing import Any

from mgp import __version__
from mgp.policies.base import Policy


def describe(policy: Policy) -> dict[str, Any]:
    """Plain values only: a stock client hands them to its user as they are."""
    spec, config = getattr(policy, "spec", None), getattr(policy, "config", None)
    return {
        "server": "mgp",
        "version": __version__,
        "method": str(getattr(policy, "label", type(policy).__name__)),
        "task": config.task.name if config is not None else "",
        "observations": {key: list(shape) for key, shape in policy.observation_shapes.items()},
        "bytes": sorted(policy.observation_uint8 or ()),  # of these, the ones that come as uint8
        "instructions": list(spec.instructions) if spec is not None else [],
        "history": policy.history,  # newest frames that a plan looks at, of steps in a row
        "action_horizon": policy.execution_horizon,  # actions in a reply, and to be run before the next plan
        "action_width": spec.action if spec is not None else None,
        "actions": spec.actions if spec is not None else None,  # "displacement" or "absolute"
        "hold": list(spec.hold) if spec is not None else None,  # the action that keeps still; None: the last goes on
        "episode_steps": spec.horizon if spec is not None else None,
    }
