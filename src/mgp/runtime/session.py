"""One connection's episode: a driver of its own, and what the client has run and seen meanwhile.

The server hears of a robot only when it asks. So what happened since the last reply, so many actions run and so many
frames not sent, is made up for when the next request comes (`advance`, `look`); then the driver is where it would be
had it been asked at every step.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from mgp.policies.base import Frame
from mgp.policies.driver import Driver
from mgp.runtime.request import Address, Request

Looked = Literal["seen", "missing", "stale", "after-gap"]


class Session:
    def __init__(self, address: Address, max_age: float | None = None):
        self.address = address
        self.max_age = max_age  # seconds
        self.driver: Driver | None = None
        self.episode: str | int = 0
        self.episodes = 0  # begun on this connection
        self.step = 0  # of the newest request
        self.time: float | None = None  # of the newest frame
        self.sent = 0  # actions in the last reply
        self.ran = 0  # of these

    def begins(self, request: Request) -> bool:
        """Whether a new episode begins: the first request of a connection, a reset, or another name."""
        other = request.episode is not None and request.episode != self.episode
        return self.driver is None or request.reset or other

    def seed(self, request: Request) -> int:
        return self.address.seed if request.seed is None else request.seed

    def begin(self, driver: Driver, request: Request) -> None:
        self.driver = driver
        self.episode = self.episodes if request.episode is None else request.episode
        self.episodes += 1
        self.step, self.time, self.sent, self.ran = (request.step or 0) - 1, None, 0, 0

    def follow(self, request: Request, frame: Frame | None) -> Looked:
        """Bring the driver to this request's step, and show it the frame, if there is one that can be used."""
        assert self.driver is not None, "begin first"
        stale = self._stale(request)
        skipped = self._advance(request)
        if frame is None or stale:
            self.driver.miss(0)
            return "stale" if stale and frame is not None else "missing"
        if skipped:
            self.driver.miss(0)  # what lies before a gap is no history
        self.driver.see(0, frame)
        self.time = request.time
        return "after-gap" if skipped else "seen"

    def _stale(self, request: Request) -> bool:
        """A frame that came twice, too late, in the wrong order, or from the future."""
        if request.step is not None and request.step <= self.step:
            return True
        if request.time is None:
            return False
        if self.time is not None and request.time <= self.time:
            return True
        age = 0.0 if request.sent is None else request.sent - request.time
        return age < 0 or (self.max_age is not None and age > self.max_age)

    def _advance(self, request: Request) -> bool:
        """Take what was run since the last reply. True if frames of steps between were never sent."""
        assert self.driver is not None
        if request.executed is not None:
            ran = request.executed
        elif request.step is not None:
            ran = self.ran + request.step - self.step
        else:
            ran = self.sent if self.address.steps is None else self.ran + self.address.steps
        more = max(min(ran, self.sent) - self.ran, 0)  # nobody can have run what he was not sent
        if more:
            self.driver.take(more)
        step = max(0, self.step + more) if request.step is None else request.step
        skipped = step > self.step + 1
        self.step, self.ran = max(step, self.step), self.ran + more
        return skipped

    @property
    def due(self) -> bool:
        return self.driver is not None and self.driver.due

    def rest(self, beyond: int) -> np.ndarray:
        """Actions (T, A) until the next plan is due and so many more, as far as there are any."""
        assert self.driver is not None
        assert self.driver.chunk is not None, "plan first"
        chunk, taken = self.driver.chunk, self.driver.taken
        actions = chunk.actions[0, taken : max(chunk.run, taken) + beyond]
        if len(actions):  # else there will be no reply, and the last one still counts
            self.sent, self.ran = len(actions), 0
        return np.ascontiguousarray(actions, np.float32)
