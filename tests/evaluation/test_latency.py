import time

import numpy as np
import pytest
import torch
from toy_robot import ToyEnv, ToyPolicy

from mgp.evaluation import Latency, measure, measure_both


class Slow(ToyPolicy):
    """5 ms a plan, 200 ms for the first ever."""

    def plan(self, *arguments):
        time.sleep(0.005 if self.frames_seen else 0.2)
        return super().plan(*arguments)


class SlowEyes(ToyEnv):
    def observe(self):
        time.sleep(0.003)
        return super().observe()


def test_latency_of_replan_step_and_sequence():
    latency = measure(Slow(history=2, execution_horizon=5), SlowEyes(horizon=20, reach=9), seed=3, threads=1)
    assert latency.threads == 1
    assert latency.replans == 4  # the whole episode, although it succeeds at once
    assert 5 <= latency.policy.replan < 150  # the warm-up is not in it
    assert latency.policy.replan <= latency.policy.replan_p95
    assert latency.policy.step == latency.policy.replan / 5
    assert latency.policy.sequence >= 4 * 5
    assert latency.with_observation.replan >= 5 + 2 * 3
    assert latency.with_observation.sequence >= latency.policy.sequence + (1 + 3 * 2) * 3


def test_one_thread_and_the_default_are_measured_and_given_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert [latency.threads for latency in measure_both(ToyPolicy(), ToyEnv(), 3)] == [1, 2]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_latency_is_plain_data():
    content = measure(ToyPolicy(), ToyEnv(), 3, threads=1).as_dict()
    assert set(content) == {"threads", "replans", "policy", "with_observation", "idle", "others", "engine"}
    assert Latency.from_dict(content).as_dict() == content
    assert not Latency.from_dict({k: v for k, v in content.items() if k not in ("idle", "others")}).idle, "nobody knew"
    assert all(isinstance(value, float) and np.isfinite(value) for value in content["policy"].values())
    assert content["policy"]["step"] == pytest.approx(content["policy"]["replan"] / 5)
