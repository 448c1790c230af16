import numpy as np
import pytest
from seen import seen

from mgp.envs import make_env
from mgp.envs.so101 import workbench
from mgp.envs.so101.button import COLOURS
from mgp.envs.so101.sorting import LIT
from mgp.envs.so101.sorting_expert import demonstrate


@pytest.fixture(scope="module")
def env():
    return make_env("sorting/towel", "cloud")


def play(env, actions) -> dict:
    for action in actions:
        _, terminated, truncated, info = env.advance(action)
        if terminated or truncated:
            break
    return info | {"terminated": terminated, "steps": env._steps}


def lamp(env) -> np.ndarray:
    """The lamp's points in the cloud."""
    cloud = env.observe()["cloud"]
    return cloud[seen(env, cloud) == env.model.geom("lamp").id]


@pytest.mark.parametrize("seed", range(5))
def test_expert_sorts(env, seed):
    env.reset(seed=seed)
    act = env.expert()
    info = play(env, (act() for _ in range(env.horizon)))
    assert info["success"]
    assert info["terminated"]
    assert info["basket"] == env.cue
    assert 80 <= info["steps"] <= 120


def test_both_cues_come(env):
    cues = []
    for seed in range(20):
        env.reset(seed=seed)
        cues.append(env.cue)
    assert 5 <= cues.count("red") <= 15


def test_wrong_basket_fails(env):
    env.reset(seed=0)
    other = next(colour for colour in workbench.BASKETS if colour != env.cue)
    plan = demonstrate(*env.towel(), workbench.BASKETS[other], env.controller.state()[:3], np.random.default_rng(0))
    info = play(env, [*plan, *[env.hold_action] * 20])
    assert (info["success"], info["terminated"], info["basket"]) == (False, True, other)


def test_doing_nothing_sorts_nothing(env):
    env.reset(seed=0)
    before = env.towel()[0]
    info = play(env, [env.hold_action] * env.horizon)
    assert (info["success"], info["terminated"], info["basket"]) == (False, False, "none")
    assert np.allclose(env.towel()[0], before, atol=2e-3)


def test_lamp_is_seen_for_a_moment(env):
    for seed in range(4):
        env.reset(seed=seed)
        act = env.expert()
        for step in range(30):
            points = lamp(env)
            assert len(points) >= 20
            assert np.allclose(points[:, 3:], COLOURS[env.cue if step < LIT else "off"][:3], atol=1e-6)
            env.advance(act())


def test_later_observations_do_not_tell_the_cue(env):
    """The same towel and arm with the other cue: after the lamp is dark, every bit is the same."""
    seen = []
    for cue in workbench.BASKETS:
        env.reset(seed=0)
        env.cue = cue
        env._show(cue)
        first = env.observe()["cloud"]
        for _ in range(LIT + 1):
            env.advance(env.hold_action)
        seen.append((first, env.observe()))
    assert not np.array_equal(seen[0][0], seen[1][0])
    assert all(np.array_equal(seen[0][1][key], seen[1][1][key]) for key in ("cloud", "state"))
