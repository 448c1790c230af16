"""Who makes the plans, beside the loop: a thread, or a stand-in whose delay is made up and exact.

One plan at a time. `poll` never waits.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mgp.policies.base import Chunk
from mgp.runtime.clock import Clock

RECENT = 8  # plans by which the next one's time is guessed: it takes as long as the slowest of them


class Done(NamedTuple):
    chunk: Chunk | None  # None: an error came instead
    error: Exception | None
    seconds: float  # from asking on


class Worker(Protocol):
    spare: int  # control steps by which a plan is asked for before it must be, since it may take longer than expected

    @property
    def expected(self) -> float:
        """Seconds until a plan that is asked for now will be there."""

    def submit(self, make: Callable[[], Chunk]) -> None: ...

    def poll(self) -> Done | None:
        """What has become of the plan, once; None while it is being made."""

    def close(self) -> None: ...


def attempt(make: Callable[[], Chunk]) -> tuple[Chunk | None, Exception | None]:
    try:
        return make(), None
    except Exception as error:  # whatever it is, the robot goes on with what it has
        return None, error


class Background:
    """A thread. A policy that hangs blocks neither the loop nor the end of the program."""

    spare = 1  # some plan takes longer than the eight before it; most of all on a busy machine

    def __init__(self, clock: Clock, threads: int = 1):
        """`threads` of torch: on small networks a second one costs more than it gives."""
        self.clock, self.threads = clock, threads
        self.recent: deque[float] = deque(maxlen=RECENT)
        self._asked, self._make = 0.0, deque[Callable[[], Chunk]]()
        self._done: deque[Done] = deque()  # appending and popping are atomic
        self._wake, self._closed = threading.Semaphore(0), False
        self._thread = threading.Thread(target=self._work, name="mgp-planner", daemon=True)
        self._thread.start()

    @property
    def expected(self) -> float:
        return max(self.recent, default=0.0)

    def submit(self, make: Callable[[], Chunk]) -> None:
        self._asked = self.clock.now()
        self._make.append(make)
        self._wake.release()

    def poll(self) -> Done | None:
        if not self._done:
            return None
        done = self._done.popleft()
        self.recent.append(done.seconds)
        return done

    def close(self) -> None:
        self._closed = True
        self._wake.release()
        self._thread.join(timeout=1.0)

    def _work(self) -> None:
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(self.threads)
        while True:
            self._wake.acquire()
            if self._closed:
                return
            chunk, error = attempt(self._make.popleft())
            self._done.append(Done(chunk, error, self.clock.now() - self._asked))


class Simulated:
    """Made at once, handed out `delay` seconds later: what delay does to success is seen without waiting for it."""

    spare = 0

    def __init__(self, clock: Clock, delay: float = 0.0):
        self.clock, self.delay = clock, delay
        self._ready: tuple[float, Done] | None = None

    @property
    def expected(self) -> float:
        return self.delay

    def submit(self, make: Callable[[], Chunk]) -> None:
        self._ready = self.clock.now() + self.delay, Done(*attempt(make), self.delay)

    def poll(self) -> Done | None:
        if self._ready is None or self.clock.now() < self._ready[0] - 1e-9:  # sums of periods are not exact
            return None
        done, self._ready = self._ready[1], None
        return done

    def close(self) -> None:
        pass
