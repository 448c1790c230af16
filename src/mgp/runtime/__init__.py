"""What runs a policy on a robot: the loop and its guards, a server and what it speaks.

The parts of a robot loop can be imported from here. They are loaded when asked for: `mgp.client` imports from this room
on machines that have neither torch nor a simulator.
"""

from __future__ import annotations

import importlib
from typing import Any

# name: module of this room
NAMES = {
    "Alarm": "doubt",
    "Background": "worker",
    "ControlLog": "log",
    "Controller": "controller",
    "EnvRobot": "robot",
    "Guards": "guards",
    "Limits": "limiter",
    "Reading": "robot",
    "Robot": "robot",
    "Simulated": "worker",
    "SystemClock": "clock",
    "VirtualClock": "clock",
}


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{NAMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(NAMES)
