"""A frame is encoded once, in however many plans it is seen; what is planned is what fresh eyes would plan."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import small
from mgp.graph import watched
from mgp.policies.driver import Driver


def frame(number: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(number)
    shapes = small.spec(small.tiny(observation="cloud")).shapes
    return {key: random.normal(0, 0.3, shape).astype(np.float32) for key, shape in shapes.items()}


def drive(policy, frames: list[int | None], forgetful: bool = False) -> tuple[np.ndarray, list[int]]:
    """The first action of a plan at every step, and how many clouds were encoded for each; None: a lost frame."""
    driver, actions, encoded = Driver(policy, [0]), [], []
    for number in frames:
        if number is None:
            driver.miss(0)
        else:
            driver.see(0, frame(number))
        if forgetful:
            driver.memory.kept = type(driver.memory.kept)()
        count: list[int] = []
        with watched(lambda module, method, inputs, output, count=count: count.append(len(inputs[0]))):
            driver.plan()
        encoded.append(count[0] if count and number is not None else 0)
        actions.append(driver.take()[0, 0])
    return np.array(actions), encoded


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("kind", ["short", "long"])
def test_only_the_new_frame_is_encoded(kind, first):
    changes = {"encoder.history": 3, "encoder.first": first}
    policy = small.policy(small.tiny(kind, "cloud", **changes))
    frames = [0, 1, 2, 3, None, None, 4, 5, 6]
    actions, encoded = drive(policy, frames)
    expected, each_time = drive(policy, frames, forgetful=True)
    np.testing.assert_allclose(actions, expected, rtol=1e-5, atol=1e-6)
    # after a gap the new frame stands for those before it, and is encoded once as well
    assert encoded == [1, 1, 1, 1, 0, 0, 1, 1, 1]
    seen = [1, 2, 3, 3 + first, 0, 0, 1 + first, 2 + first, 3 + first]
    assert each_time == seen, "without a memory: each distinct frame"


def test_the_hand_is_part_of_what_a_frame_shows():
    """Clouds are relative to the hand: the same cloud under another hand is another frame."""
    policy = small.policy(small.tiny("short", "cloud"))
    driver, one = Driver(policy, [0]), frame(0)
    other = {**one, "state": one["state"] + 0.1}
    for each in (one, other):
        driver.see(0, each)
        actions = driver.plan().actions
        driver.take()
    fresh = Driver(policy, [0])
    for each in (one, other):
        fresh.see(0, each)
    np.testing.assert_allclose(actions, fresh.plan().actions, rtol=1e-5, atol=1e-6)


def test_nothing_but_the_last_plans_frames_is_kept():
    policy = small.policy(small.tiny("short", "cloud"))
    driver = Driver(policy, [0])
    for number in range(20):
        driver.see(0, frame(number))
        driver.plan()
        driver.take()
        assert len(driver.memory.kept.features["cloud"]) <= policy.frames


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("kind", ["short", "long"])
def test_an_episode_after_a_reset_is_the_first_of_a_fresh_policy(kind, first):
    """Also where it begins with the very frames that the one before ended with, and those were spoilt meanwhile."""
    config = small.tiny(kind, "cloud", **{"encoder.history": 3, "encoder.first": first})
    policy, fresh = small.policy(config), small.policy(config)

    def episode(one, numbers) -> tuple[np.ndarray, list[int]]:
        encoded: list[int] = []
        one.reset([7])
        actions = []
        for number in numbers:
            with watched(lambda module, method, inputs, output: method == "forward" and encoded.append(len(inputs[0]))):
                actions.append(one.act(frame(number)))
        return np.array(actions), encoded

    episode(policy, [3, 2, 1, 0, 5])
    kept = policy.driver.memory.kept
    assert kept.features["cloud"]
    for mark, features in kept.features["cloud"].items():
        kept.features["cloud"][mark] = torch.full_like(features, torch.nan)
    numbers = [5, 0, 1, 2, 3, 4, 6]
    again, encoded = episode(policy, numbers)
    expected, first_time = episode(fresh, numbers)
    np.testing.assert_array_equal(again, expected)
    assert encoded == first_time, "nothing is known beforehand"
    assert policy.driver.memory.kept is not kept


def test_a_small_policy_acts_with_one_thread_and_gives_the_others_back():
    policy, seen = small.policy(small.tiny("short", "cloud")), []
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with watched(lambda *_: seen.append(torch.get_num_threads())):
            policy.act(frame(0))
            policy.plan(small.frames(policy.config, 6, 2), policy.begin(range(6)))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert seen[0] == 1
    assert seen[-1] == 3, "many episodes at once are shared among threads"


def test_who_asks_for_threads_gets_them():
    from mgp.policies.acting import torch_threads

    policy, seen = small.policy(small.tiny("short", "cloud")), []
    before = torch.get_num_threads()
    with torch_threads(2), watched(lambda *_: seen.append(torch.get_num_threads())):
        policy.act(frame(0))
    assert set(seen) == {2}
    assert torch.get_num_threads() == before
