"""Plans for made-up frames before the first real one: that one is then as fast as the others.

They also tell how many plans at once pay: where a pass is mostly overhead, eight rows cost little more than one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from mgp.policies.base import Frame, Policy
from mgp.policies.driver import Driver
from mgp.policies.together import make_together
from mgp.runtime.request import INSTRUCTION

REPEATS = 3
ENOUGH = 5.0  # seconds; a slow policy is not measured any further
GAIN = 0.9  # of the time a row: below it, a batch twice as large pays


def warm_up(policy: Policy, most: int) -> int:
    """How many plans to make at once, at most `most`; 1 for policies that cannot make several."""
    begin, frame = time.perf_counter(), blank_frame(policy)
    each = _seconds(lambda: _drivers(policy, frame, 1)[0].make())
    best = 1
    while 2 * best <= most and time.perf_counter() - begin < ENOUGH:
        rows = 2 * best
        if make_together(_drivers(policy, frame, rows)) is None:
            break
        now = _seconds(lambda: make_together(_drivers(policy, frame, rows))) / rows  # noqa: B023 (called at once)
        if now > GAIN * each:
            break
        each, best = now, rows
    return best


def blank_frame(policy: Policy) -> Frame:
    """One that the policy takes, and that says nothing."""
    kinds = {
        key: np.uint8 if key in (policy.observation_uint8 or ()) else np.float32 for key in policy.observation_shapes
    }
    frame: dict = {key: np.zeros(shape, kinds[key]) for key, shape in policy.observation_shapes.items()}
    instructions = getattr(getattr(policy, "spec", None), "instructions", ())
    return {**frame, INSTRUCTION: instructions[0]} if instructions else frame


def _drivers(policy: Policy, frame: Frame, rows: int) -> list[Driver]:
    drivers = [Driver(policy, [0]) for _ in range(rows)]
    for driver in drivers:
        driver.see(0, frame)
    return drivers


def _seconds(work: Callable[[], object]) -> float:
    """The shortest of a few, after one that does not count."""
    best = float("inf")
    for count in range(REPEATS + 1):
        begin = time.perf_counter()
        work()
        taken = time.perf_counter() - begin
        if count or taken > 1:
            best = min(best, taken)
        if taken > 1:
            break
    return best
