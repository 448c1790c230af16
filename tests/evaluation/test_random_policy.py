import numpy as np
import pytest
from toy_robot import ToyEnv

from mgp.errors import ConfigError
from mgp.policies.random import RandomPolicy


def test_uniform_in_the_box_and_seeded_by_episode():
    policy = RandomPolicy([-1, 0], [1, 5], execution_horizon=500)
    actions, run, _ = policy.plan({}, policy.begin([3, 4]))
    assert run == 500
    assert actions.shape == (2, 500, 2)
    assert (actions >= [-1, 0]).all()
    assert (actions <= [1, 5]).all()
    np.testing.assert_allclose(actions.mean((0, 1)), [0, 2.5], atol=0.25)
    alone = policy.plan({}, policy.begin([4])).actions
    np.testing.assert_array_equal(alone[0], actions[1])  # whoever its neighbours are


def test_act_gives_one_action_at_a_time():
    env = ToyEnv()
    policy = RandomPolicy.for_env(env, execution_horizon=2)
    policy.reset([1])
    frame, _ = env.reset(seed=1)
    actions = np.stack([policy.act(frame) for _ in range(4)])
    memory = policy.begin([1])
    chunks = [policy.plan({}, memory).actions[0] for _ in range(2)]
    np.testing.assert_array_equal(actions, np.concatenate(chunks))


def test_it_acts_without_any_observation():
    policy = RandomPolicy([-1], [2])
    policy.reset([5])
    assert np.isfinite([policy.act(None) for _ in range(6)]).all()


@pytest.mark.parametrize(("low", "high"), [([1], [-1]), ([0], [1, 2]), ([-np.inf], [1])])
def test_boxes_that_are_none_are_refused(low, high):
    with pytest.raises(ConfigError, match="box"):
        RandomPolicy(low, high)


def test_at_least_one_action_a_plan():
    with pytest.raises(ConfigError, match="execution_horizon=0"):
        RandomPolicy([0], [1], 0)
