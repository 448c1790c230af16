"""A plan in one graph is the plan that its parts make one by one."""

from __future__ import annotations

import numpy as np
import pytest

import small
from mgp.graph import watched
from mgp.policies.base import Committed
from mgp.policies.driver import Driver
from mgp.policies.mgp import MGP

LONG = {"policy.sampling.near_codes": 4.0, "policy.offset": 8.0}


def both(horizon: str, **changes) -> tuple[MGP, MGP]:
    """With whole graphs and without."""
    config = small.tiny(horizon, "cloud", **{"policy.transformer.self_layers": 2, **changes})
    one, other = small.policy(config), small.policy(config)
    other.whole = False
    return one, other


def drive(policy: MGP, steps: int = small.HORIZON, gaps: tuple[int, ...] = (), ahead: int = 0):
    """Chunks of an episode and what was thought; between plans `ahead` actions are on their way."""
    driver, chunks = Driver(policy, [0], trace=True), []
    for step in range(steps):
        view = small.frames(policy.config, 1, 1, seed=step)
        if step in gaps:
            driver.miss(0)
        else:
            driver.see(0, {key: value[0, 0] for key, value in view.items()})
        if driver.due:
            chunks.append(driver.join(driver.ask(ahead)()))
        driver.take()
    return chunks, policy.trace(driver.memory, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        LONG,
        {**LONG, "policy.sampling.refine_steps": 3},
        {**LONG, "policy.sampling.variant": "no-sm"},
        {**LONG, "policy.sampling.edit_window": 2, "policy.sampling.mask_ratio": 1.0},
        {"policy.sampling.edit_window": 3},
        {"policy.sampling.mask_ratio": 0.0},
        {"policy.sampling.mask_ratio": 0.3, "policy.tokenizer.actions_per_token": 2},
        {"policy.transformer.time": "both", "policy.sampling.refine_steps": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("ahead", [0, 3])
def test_long(changes, ahead):
    whole, parts = both("long", **changes)
    (mine, thought), (expected, before) = (drive(one, gaps=(8, 9), ahead=ahead) for one in (whole, parts))
    for chunk, other in zip(mine, expected, strict=True):
        np.testing.assert_allclose(chunk.actions, other.actions, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(chunk.confidence, other.confidence, rtol=1e-4, atol=1e-6)
    for name in ("executed", "tokens", "masked"):
        np.testing.assert_array_equal(getattr(thought, name), getattr(before, name), err_msg=name)
    np.testing.assert_allclose(thought.confidence, before.confidence, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"policy.offset": 8.0},
        {"policy.tokenizer.window": 24, "policy.tokenizer.actions_per_token": 2, "policy.sampling.refine_steps": 4},
    ],
    ids=str,
)
def test_short(changes):
    whole, parts = both("short", **changes)
    for mine, other in zip(drive(whole)[0], drive(parts)[0], strict=True):
        np.testing.assert_allclose(mine.actions, other.actions, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(mine.confidence, other.confidence, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("ahead", [1, 4])
def test_short_that_goes_on_from_what_the_robot_does(ahead):
    whole, parts = both("short", **{"policy.tokenizer.window": 16})
    done = np.random.default_rng(0).uniform(-1, 1, (1, 9, small.ACTION)).astype(np.float32)
    made = []
    for policy in (whole, parts):
        memory = policy.begin([0])
        memory.committed = Committed(done, ahead)
        made.append(policy.plan(small.frames(policy.config, 1, 2), memory))
    np.testing.assert_allclose(made[0].actions, made[1].actions, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made[0].confidence, made[1].confidence, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("horizon", "changes", "used"),
    [
        ("short", {}, True),
        ("long", {}, True),
        ("short", {"policy.sampling.temperature": 0.5}, False),
        ("long", {"policy.sampling.temperature": 0.5}, False),
        ("long", {"policy.sampling.scoring": "random"}, False),
        ("long", {"policy.sampling.score": "leave-out"}, False),
        ("long", {"policy.sampling.edit_window": 2}, True),
        ("long", {"policy.sampling.see_pending": True}, False),
        ("long", {"policy.sampling.replan": 0.5}, False),
        ("long", {"policy.sampling.variant": "full"}, False),
        ("long", {"policy.transformer.local": 1}, False),
    ],
)
def test_where_it_is_used(horizon, changes, used):
    policy, called = both(horizon, **changes)[0], set()
    with watched(lambda module, method, inputs, output: called.add(method)):
        drive(policy, steps=8)
    assert bool(called & {"window_graph", "rewrite_graph"}) == used


@pytest.mark.parametrize("horizon", ["short", "long"])
def test_not_for_two_robots_at_once(horizon):
    policy, called = both(horizon)[0], set()
    view = small.frames(policy.config, 2, 2)
    memory = policy.begin([0, 1])
    with watched(lambda module, method, inputs, output: called.add(method)):
        policy.plan(view, memory)
        policy.plan(view, memory)
    assert not called & {"window_graph", "rewrite_graph"}
