import numpy as np
import pytest
from toy_robot import ToyEnv

from mgp.errors import CheckpointError, ConfigError
from mgp.policies.random import RandomPolicy


def test_uniform_in_the_box_and_seeded_by_episode():
    policy = RandomPolicy([-1, 0], [1, 5], execution_horizon=500)
    policy.reset([3, 4])
    actions = policy.plan({})
    assert actions.shape == (2, 500, 2)
    assert (actions >= [-1, 0]).all()
    assert (actions <= [1, 5]).all()
    np.testing.assert_allclose(actions.mean((0, 1)), [0, 2.5], atol=0.25)
    policy.reset([4])
    np.testing.assert_array_equal(policy.plan({})[0], actions[1])  # whoever its neighbours are


def test_act_gives_one_action_at_a_time():
    env = ToyEnv()
    policy = RandomPolicy.for_env(env, execution_horizon=2)
    policy.reset([1])
    frame, _ = env.reset(seed=1)
    actions = np.stack([policy.act(frame) for _ in range(4)])
    policy.reset([1])
    np.testing.assert_array_equal(actions, np.concatenate([policy.plan({})[0], policy.plan({})[0]]))


def test_saved_and_loaded_it_draws_the_same(tmp_path):
    policy = RandomPolicy([-1], [2], execution_horizon=3)
    policy.save(tmp_path)
    other = RandomPolicy.load(tmp_path)
    policy.reset([5])
    other.reset([5])
    np.testing.assert_array_equal(policy.plan({}), other.plan({}))
    with pytest.raises(CheckpointError, match="holds no random policy"):
        RandomPolicy.load(tmp_path / "nowhere")


@pytest.mark.parametrize(("low", "high"), [([1], [-1]), ([0], [1, 2]), ([-np.inf], [1])])
def test_boxes_that_are_none_are_refused(low, high):
    with pytest.raises(ConfigError, match="box"):
        RandomPolicy(low, high)
