"""Drivers that began at different times plan as one batch, and each as if it were alone."""

from __future__ import annotations

import functools

import fit
import numpy as np
import pytest

import small
from mgp.policies.driver import Driver
from mgp.policies.learned import LearnedPolicy
from mgp.policies.together import make_together

CAN = ("mgp-short", "bc", "dp3", "flow-policy", "resnet-t")
CANNOT = ("mgp-long", "act", "dp3-full")  # what was planned before goes into the next plan


@functools.cache
def trained(method: str) -> LearnedPolicy:
    return fit.fit(small.tiny_of(method))[0]


def driven(policy: LearnedPolicy, seed: int, steps: int, missed: bool = False, trace: bool = False) -> Driver:
    """Has acted for some steps; the next frame is seen or missed."""
    driver = Driver(policy, [seed], trace)
    random = np.random.default_rng(seed)
    for _ in range(steps):
        driver.act({"state": random.normal(0, 0.3, small.STATE["state"]).astype(np.float32)})
    if missed:
        driver.miss(0)
    else:
        driver.see(0, {"state": random.normal(0, 0.3, small.STATE["state"]).astype(np.float32)})
    return driver


@pytest.mark.parametrize("method", CAN)
def test_together_as_alone(method):
    policy = trained(method)
    begun = [(1, 0, False), (2, 3, False), (3, 4, True), (4, 9, False)]  # seed, steps, whether the frame is missed
    for _ in range(2):  # and the random numbers go on where they were
        together = [driven(policy, *one) for one in begun]
        alone = [driven(policy, *one) for one in begun]
        for _ in range(2):
            chunks = make_together(together)
            assert chunks is not None
            for driver, chunk, other in zip(together, chunks, alone, strict=True):
                np.testing.assert_allclose(chunk.actions, other.plan().actions, rtol=1e-4, atol=1e-5)
                assert (chunk.run, chunk.actions.shape) == (other.chunk.run, other.chunk.actions.shape)
                driver.join(chunk)


@pytest.mark.parametrize("method", CANNOT)
def test_plans_that_depend_on_earlier_ones_are_made_alone(method):
    policy = trained(method)
    drivers = [driven(policy, seed, 0) for seed in (1, 2)]
    assert make_together(drivers) is None
    np.testing.assert_array_equal(drivers[0].plan().actions, driven(policy, 1, 0).plan().actions)


def test_a_trace_is_kept_only_for_who_asks_and_makes_no_difference():
    policy = trained("mgp-long")
    driver, other = driven(policy, 1, 6), driven(policy, 1, 6, trace=True)
    assert policy.trace(driver.memory, 0) is None
    assert len(policy.trace(other.memory, 0).executed) == 2
    np.testing.assert_array_equal(driver.plan().actions, other.plan().actions)
