"""Gymnasium's way in: every environment by its id, and none of them needs torch."""

from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from metaworld.env_dict import ALL_V3_ENVIRONMENTS

from mgp.envs import env_names, make_env
from mgp.envs.registration import METAWORLD, TASKS, gym_id, register
from mgp.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore:Constant")
NEW = ("sorting/towel-nudged", "buttons/shifted", "metaworld-memory/pick-place-cue")
ONE_OF_EACH = (*NEW, "metaworld/push", "metaworld-dynamic/push", "metaworld-memory/pick-place-cue-still")


def test_every_environment_has_an_id_and_nothing_else_has():
    assert [f"{family}/{task}" for family, tasks in TASKS.items() for task in tasks] == env_names()
    assert {gym_id(name) for name in env_names()} == {name for name in gym.registry if name.startswith("mgp/")}
    assert sorted(METAWORLD) == sorted(name.removesuffix("-v3") for name in ALL_V3_ENVIRONMENTS)


def test_registering_again_does_no_harm(recwarn):
    before = dict(gym.registry)
    register()
    assert gym.registry == before
    assert not recwarn.list


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_it_is_the_same_environment_and_gymnasium_accepts_it(name):
    env, same = gym.make(gym_id(name), points=64, horizon=20), make_env(name, points=64, horizon=20)
    assert (env.spec.id, env.unwrapped.name) == (gym_id(name), name)
    one, other = env.reset(seed=5), same.reset(seed=5)
    for _ in range(3):
        assert all(np.array_equal(one[0][key], other[0][key]) for key in other[0])
        one, other = env.step(same.hold_action), same.step(same.hold_action)
    assert one[1:4] == other[1:4]
    assert one[4]["success"] is False
    assert env.render().shape == (160, 160, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice: infinite bounds
        check_env(env.unwrapped)
    env.close()


def test_episodes_end_at_the_horizon_by_truncation():
    env = gym.make("mgp/sorting-towel-nudged-v0", observation="state", horizon=8)
    env.reset(seed=0)
    ends = [env.step(env.unwrapped.hold_action)[2:4] for _ in range(8)]
    assert ends == [(False, False)] * 7 + [(False, True)]


def test_wrong_use_is_answered():
    with pytest.raises(ConfigError, match="render_mode 'rgb_array'"):
        gym.make("mgp/sorting-towel-v0", render_mode="human")
    for name in ("mgp/sorting-towel-v0", "mgp/metaworld-reach-v0"):
        env = gym.make(name, observation="state", render_mode="rgb_array")
        with pytest.raises(ConfigError, match=r"reset takes no options, got \['nudged'\]"):
            env.reset(seed=0, options={"nudged": True})


def test_neither_torch_nor_a_simulator_is_loaded_before_its_time():
    """In a process of its own: naming them loads no simulator, acting in one and recording it no torch."""
    program = """
import sys
import gymnasium
import mgp.envs
assert not {"mujoco", "metaworld"} & sys.modules.keys()
env = gymnasium.make("mgp/sorting-towel-nudged-v0", points=64)
env.reset(seed=0)
env.step(env.action_space.sample())
gymnasium.make("mgp.envs:mgp/metaworld-memory-pick-place-cue-v0", observation="state").reset(seed=0)
import mgp.data.collect
assert "torch" not in sys.modules
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr
