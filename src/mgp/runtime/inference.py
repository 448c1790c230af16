"""A thread of its own for everything that touches the policy, so that no message waits for a network to compute.

Plans that wait at the same time are made at once, where that pays: nobody is made to wait for company.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgp.policies.base import Chunk, Policy
from mgp.policies.driver import Driver
from mgp.policies.together import make_together
from mgp.runtime.measures import Measures
from mgp.runtime.refusals import PlanError
from mgp.runtime.warm_up import warm_up

log = logging.getLogger("mgp.runtime")


@dataclass(frozen=True)
class _Job:
    future: asyncio.Future
    driver: Driver | None = None  # to be planned for
    work: Callable[[], Any] | None = None  # or something else that must be done in the thread
    until: float = float("inf")  # by `time.monotonic`; nobody waits for the plan after that
    since: float = 0.0


class Inference:
    def __init__(self, policy: Policy, measures: Measures, batch: int = 8, threads: int = 1):
        self.policy, self.measures, self.batch, self.threads = policy, measures, batch, threads
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="mgp-inference", daemon=True)

    async def start(self) -> None:
        """Returns when the policy is warm."""
        self.loop = asyncio.get_running_loop()
        self.thread.start()
        try:
            self.batch = await self._submit(work=lambda: warm_up(self.policy, self.batch))
        except BaseException:
            await self.stop()
            raise
        self.measures.largest_batch.value = self.batch

    async def stop(self, wait: bool = True) -> None:
        """End the thread after the jobs that are there; who does not wait leaves it alone with them."""
        self.jobs.put(None)
        if wait:
            await self.loop.run_in_executor(None, self.thread.join)

    async def begin(self, seed: int) -> Driver:
        """A driver for a new episode."""
        return await self._submit(work=lambda: Driver(self.policy, [seed]))

    async def plan(self, driver: Driver, until: float = float("inf")) -> bool:
        """Give the driver a new plan. False if it was too late to begin with one: then it has the one it had."""
        return await self._submit(driver=driver, until=until)

    async def _submit(self, **what: Any) -> Any:
        job = _Job(self.loop.create_future(), since=time.monotonic(), **what)
        self.jobs.put(job)
        return await job.future

    # --- in the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        from mgp.policies.acting import torch_threads

        with torch_threads(self.threads):  # holds for the thread that says it
            while (jobs := self._next()) is not None:
                self._work(jobs)

    def _work(self, jobs: Sequence[_Job]) -> None:
        now, plans = time.monotonic(), []
        for job in jobs:
            if job.future.cancelled():  # nobody waits for it any more
                continue
            if job.driver is None:
                self._settle(job, job.work)
            elif now > job.until:
                self._settle(job, lambda: False)
            else:
                self.measures.waiting_seconds.add(now - job.since)
                plans.append(job)
        if plans:
            self._plan(plans)

    def _next(self) -> list[_Job] | None:
        """All that waits, up to a batch; None at the end."""
        jobs: list[_Job] = []
        while not jobs or (len(jobs) < self.batch and not self.jobs.empty()):
            job = self.jobs.get()
            if job is None:
                if not jobs:
                    return None
                self.jobs.put(None)  # first these
                break
            jobs.append(job)
        return jobs

    def _plan(self, jobs: Sequence[_Job]) -> None:
        drivers = [job.driver for job in jobs if job.driver is not None]
        chunks = self._together(drivers)
        for row, (job, driver) in enumerate(zip(jobs, drivers, strict=True)):
            self._settle(job, functools.partial(self._adopt, driver, None if chunks is None else chunks[row]))

    def _together(self, drivers: Sequence[Driver]) -> list[Chunk] | None:
        begin = time.perf_counter()
        try:
            chunks = make_together(drivers) if len(drivers) > 1 else None
        except Exception:  # one of them alone is at fault: each is planned for alone, and it is told
            log.warning("planning for %d clients at once failed; each is planned for alone", len(drivers))
            return None
        if chunks is not None:
            self._measure(begin, len(chunks))
        return chunks

    def _adopt(self, driver: Driver, chunk: Chunk | None) -> bool:
        """Make the plan, if that was not done with others; keep the one in hand if it is no numbers."""
        if chunk is None:
            begin = time.perf_counter()
            chunk = driver.make()
            self._measure(begin, 1)
        if not np.isfinite(chunk.actions).all():
            driver.refuse()
            raise PlanError("the policy planned NaN or Inf; the plan before it stands")
        driver.join(chunk)
        return True

    def _measure(self, begin: float, rows: int) -> None:
        self.measures.plan_seconds.add(time.perf_counter() - begin)
        self.measures.batch.add(rows)
        self.measures.plans.add(count=rows)

    def _settle(self, job: _Job, work: Callable[[], Any] | None) -> None:
        """Do it, and hand the outcome to whoever waits for it in the event loop."""
        assert work is not None
        result, failure = None, None
        try:
            result = work()
        except Exception as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the event loop is closed: the server did not wait
            self.loop.call_soon_threadsafe(_tell, job.future, result, failure)


def _tell(future: asyncio.Future, result: Any, error: Exception | None) -> None:
    if future.done():  # cancelled meanwhile
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
