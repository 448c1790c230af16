"""Time that never runs backwards: the system's, or a made-up one that passes at once."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since some moment; only differences mean anything."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """`time.monotonic`: who sets the wall clock, or the network's time service, changes nothing here."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class VirtualClock:
    """For simulated robots and tests: sleeping is instant, and nothing else takes time."""

    def __init__(self, start: float = 0.0):
        self.time = start

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
