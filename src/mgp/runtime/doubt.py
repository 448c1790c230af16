"""Confidence that stays low: an alarm, or a reason to hold."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal

from mgp.config import choices, positive
from mgp.errors import ConfigError


@dataclass(frozen=True)
class Alarm:
    """The scale depends on the training: `python -m benchmarks.replanning RUN` finds the level of a run."""

    below: float  # a look is unsure if its confidence is lower
    looks: int = 3  # in a row that are unsure: so many raise the alarm, and one that is not ends it
    then: Literal["report", "hold"] = "report"  # hold: stay until a look is sure again

    def __post_init__(self) -> None:
        choices(self)
        positive(self, "looks")
        if not 0 <= self.below <= 1:
            raise ConfigError(f"alarm.below = {self.below}: a confidence lies between 0 and 1")


class Doubt:
    def __init__(self, alarm: Alarm | None):
        self.alarm = alarm
        self.unsure = False
        self._newest: deque[float] = deque(maxlen=alarm.looks if alarm else 1)

    @property
    def holding(self) -> bool:
        return self.unsure and self.alarm is not None and self.alarm.then == "hold"

    def look(self, confidence: float | None) -> bool:
        """Take in the confidence of a look, None or NaN if there is none; whether the alarm starts or ends."""
        if self.alarm is None or confidence is None or math.isnan(confidence):
            return False
        self._newest.append(confidence)
        low = [one < self.alarm.below for one in self._newest]
        before, self.unsure = self.unsure, (self.unsure and low[-1]) or (len(low) == self.alarm.looks and all(low))
        return before != self.unsure
