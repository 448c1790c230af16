import numpy as np
import pytest
from seen import seen, touching

from mgp.envs import make_env
from mgp.envs.nudge import is_nudged
from mgp.envs.so101 import towel_nudge, workbench
from mgp.envs.so101.button import COLOURS
from mgp.envs.so101.sorting import LIT
from mgp.envs.so101.sorting_expert import demonstrate


@pytest.fixture(scope="module")
def env():
    return make_env("sorting/towel", "cloud")


@pytest.fixture(scope="module")
def nudged():
    return make_env("sorting/towel-nudged", "state")


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


def test_the_towel_goes_sideways_between_the_baskets_before_it_is_grasped(nudged):
    env, ways, steps = nudged, [], []
    fingers, baskets = set(env._fingers), {env.model.body(f"basket_{colour}").id for colour in workbench.BASKETS}
    for seed in range(40):
        if not is_nudged(seed):
            continue
        env.reset(seed=seed)
        (before, angle), act = env.towel(), env.expert()
        while env.shifted_at is None:
            place, _ = env.towel()
            assert np.allclose(place, before, atol=1e-3), "nothing has moved it"
            env.advance(act())
        after, turned = env.towel()
        assert towel_nudge.SHIFT[0] - 1e-3 < abs(after[0] - before[0]) < towel_nudge.SHIFT[1] + 1e-3
        assert np.allclose(after[1:], before[1:], atol=2e-3)
        assert 0 <= abs(turned - angle) < towel_nudge.TURN + 0.01
        assert abs(after[0]) < towel_nudge.FURTHEST + 1e-3
        assert not touching(env.model, env.data, env._towel_geom, fingers | baskets)
        ways.append(np.sign(after[0] - before[0]) * (1 if env.cue == "red" else -1))
        steps.append(env.shifted_at)
    assert min(steps) >= LIT
    assert len(set(steps)) > 8
    assert abs(sum(ways)) < 16, "where it goes does not tell the basket"


def test_who_is_quick_is_not_spared(nudged):
    """A gripper that stands over the towel long before the drawn step has it taken away."""
    env = nudged
    seed = next(seed for seed in range(99) if env.reset(seed=seed) and env._nudge and env._nudge.step > 24)
    env.reset(seed=seed)
    plan = env.plan(np.random.default_rng(0))
    low = next(i for i in range(len(plan)) if plan[i, 2] < 0.03)  # on the way down
    for action in plan[range(0, low + 1, 2)]:  # twice as fast
        env.advance(action)
    for _ in range(3):
        env.advance(plan[low])
    assert env.shifted_at is not None
    assert env.shifted_at < env._nudge.step - 1
