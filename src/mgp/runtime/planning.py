"""When a plan is asked for, and how it joins the one in hand."""

from __future__ import annotations

import math
from collections.abc import Callable

from mgp.errors import ConfigError, UnknownNameError
from mgp.policies.driver import Driver
from mgp.runtime.guards import Guards, flaw
from mgp.runtime.log import PlanNote
from mgp.runtime.worker import Done, Worker

# frozen: the policy is told which actions will have run when its plan is there, and plans on from them;
# naive: it plans as if it were there at once; wait: the robot holds until it is there
MODES = ("frozen", "naive", "wait")
Say = Callable[[str, str], None]  # (kind of event, text)


class Planning:
    """At most one plan is in the making. Steps are control steps since the controller began."""

    def __init__(self, driver: Driver, worker: Worker, rate: float, mode: str, every: int | None, guards: Guards):
        if mode not in MODES:
            raise UnknownNameError("mode of a controller", mode, MODES)
        if not rate > 0 or (every is not None and every < 1):
            raise ConfigError(f"rate = {rate} and every = {every}: must be above 0 and at least 1")
        self.driver, self.worker, self.rate, self.mode, self.every = driver, worker, rate, mode, every
        self.most_failures, self.failures = guards.failures, 0  # in a row
        self.coast = round(guards.coast * rate)  # steps in a row
        self.asked: int | None = None  # when the plan was asked for that is being made
        self.last = 0  # when the plan was asked for that came last
        self.ahead = 0  # actions that will have run when it is there

    @property
    def thinking(self) -> bool:
        return self.asked is not None

    @property
    def steps_to_think(self) -> int:
        return math.ceil(self.worker.expected * self.rate - 1e-6)

    @property
    def coasts(self) -> bool:
        """Whether the plan in hand is over, and its last action is to go on until the next is there."""
        over = 0 if self.driver.chunk is None else self.driver.taken - self.driver.chunk.actions.shape[1]  # steps
        return self.thinking and 0 <= over < self.coast

    def due(self, step: int) -> bool:
        driver, chunk = self.driver, self.driver.chunk
        if self.thinking or chunk is None:
            return not self.thinking
        every = self.every or chunk.run
        if self.mode == "wait":
            return driver.taken >= every or not driver.left
        if driver.left <= self.steps_to_think + self.worker.spare:
            return True
        on_beat = driver.run % driver.policy.beat == 0 or self.failures  # one that failed is tried again at once
        return step - self.last >= every and bool(on_beat)

    def ask(self, step: int) -> None:
        may = 0 if self.mode == "wait" or self.driver.chunk is None else self.driver.left + self.coast
        self.ahead = min(self.steps_to_think, may)
        make = self.driver.ask(self.ahead if self.mode == "frozen" else 0)
        self.asked = step
        self.worker.submit(make)

    def collect(self, step: int, say: Say) -> PlanNote | None:
        """Go on with the plan that was asked for, if it is there and good."""
        if self.asked is None:
            return None
        done, passed = self.worker.poll(), self.driver.since or 0
        late = passed > self.ahead
        if done is None:
            if late:
                say("late", f"the plan of step {self.asked} was expected after {self.ahead} steps")
            return None
        asked, self.asked = self.asked, None
        wrong = self._wrong(done)
        if wrong or done.chunk is None:
            say("refused plan" if done.chunk else "failed", wrong)
            self._drop(done)
            return None
        self.failures, self.last = 0, asked
        driver = self.driver
        before = driver.chunk.actions[0, driver.taken] if driver.chunk and driver.left else None
        chunk = driver.join(done.chunk, naive=self.mode == "naive")
        jump = [] if before is None or not driver.left else (chunk.actions[0, passed] - before).tolist()
        confidence = None if chunk.confidence is None else float(chunk.confidence[0])
        return PlanNote(asked, step, done.seconds, self.ahead, passed, late, confidence, jump)

    def end(self, wait: Callable[[], None], times: int = 20) -> bool:
        """Let the plan that is in the making come to nothing; whether it did before so many waits were over."""
        for _ in range(times if self.thinking else 0):
            done = self.worker.poll()
            if done is not None:
                self.asked, self.most_failures = None, self.failures + 2
                self._drop(done)
                break
            wait()
        return not self.thinking

    def _wrong(self, done: Done) -> str:
        if done.chunk is None:
            return f"{type(done.error).__name__}: {done.error}"
        return flaw(done.chunk, self.driver.memory.last.shape[-1]) or ""

    def _drop(self, done: Done) -> None:
        if done.chunk is not None:
            self.driver.refuse()
        else:
            self.driver.fail()
        self.failures += 1
        if self.failures >= self.most_failures:
            raise done.error or ConfigError(f"{self.failures} plans in a row were refused: {self._wrong(done)}")
