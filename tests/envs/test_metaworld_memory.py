"""The goal that is marked for a moment, and the object that is moved once: what is seen, moved and judged."""

from __future__ import annotations

import numpy as np
import pytest
from seen import seen, touching

from mgp.envs import make_env
from mgp.envs.metaworld_memory import AREA, GOALS, RADIUS, SHIFT, SHOWN
from mgp.envs.nudge import is_nudged
from mgp.errors import UnknownNameError

pytestmark = pytest.mark.filterwarnings("ignore:Constant")
CUE = "metaworld-memory/pick-place-cue"


@pytest.fixture(scope="module")
def env():
    return make_env(CUE, "state")


def object_place(env) -> np.ndarray:
    return env._sim.data.body("obj").xpos.copy()


def test_the_marker_is_gone_from_everything_seen(env):
    """And the same object with another goal gives the same bits from then on."""
    state, env, later = env, make_env(CUE, "cloud"), []
    for cue in range(len(GOALS)):
        env.reset(seed=3)
        env.cue, env._sim._target_pos = cue, GOALS[cue].copy()
        env._sim.model.site("goal").pos = GOALS[cue]
        for step in range(SHOWN + 1):
            if step in (SHOWN - 1, SHOWN):
                shown = int((seen(env, env.observe()["cloud"]) < 0).sum())
                assert shown >= 30 if step < SHOWN else shown == 0
            env.advance(env.hold_action)
        later.append((env.observe()["cloud"], env.picture(48)))
    assert all(np.array_equal(a, b) for one in later[1:] for a, b in zip(one, later[0], strict=True))
    first, _ = state.reset(seed=3)
    assert np.allclose(first["state"][-3:], state._sim._target_pos)
    assert np.linalg.norm(GOALS[state.cue] - first["state"][-3:]) < 0.03
    for _ in range(SHOWN):
        state.advance(state.hold_action)
    assert not state.observe()["state"][-3:].any()


@pytest.mark.parametrize("kind", ["camera", "oracle", "paper"])
def test_no_kind_of_cloud_shows_a_marker_that_is_gone(kind):
    env = make_env(CUE, cloud=kind)
    first, _ = env.reset(seed=1)
    goal = env._sim._target_pos

    def at_goal(cloud: np.ndarray) -> int:
        return int((np.linalg.norm(cloud - goal, axis=1) < 0.025).sum())

    assert at_goal(first["cloud"]) >= 1
    for _ in range(SHOWN):
        env.advance(env.hold_action)
    assert at_goal(env.observe()["cloud"]) == 0


def test_the_object_is_moved_before_it_is_grasped(env):
    goals = []
    hand = env._sim.model.body("hand").rootid
    robot = {body for body in range(env._sim.model.nbody) if env._sim.model.body(body).rootid == hand}
    for seed in range(20):
        env.reset(seed=seed)
        goals.append(env.cue)
        if not is_nudged(seed):
            continue
        before, act = object_place(env), env.expert()
        while env.shifted_at is None:
            assert np.allclose(object_place(env), before, atol=2e-3)
            env.advance(act())
        after = object_place(env)
        assert env.shifted_at >= SHOWN
        assert SHIFT[0] - 2e-3 < np.hypot(*(after - before)[:2]) < SHIFT[1] + 2e-3
        assert (after[:2] > AREA[0] - 2e-3).all()
        assert (after[:2] < AREA[1] + 2e-3).all()
        assert not touching(env._sim.model, env._sim.data, env._sim.model.geom("objGeom").id, robot)
    assert set(goals) == {0, 1, 2, 3}


def test_another_goal_ends_the_episode(env):
    env.reset(seed=0)
    assert np.linalg.norm(GOALS[:, None] - GOALS, axis=2)[~np.eye(4, dtype=bool)].min() > 2 * RADIUS + 0.05
    env._sim._set_obj_xyz(GOALS[env.cue])
    assert env.advance(env.hold_action)[3]["success"]
    env.reset(seed=0)
    env._sim._set_obj_xyz(GOALS[(env.cue + 1) % 4])
    _, terminated, _, info = env.advance(env.hold_action)
    assert (terminated, info["wrong"], info["success"]) == (True, True, False)


def test_names():
    assert make_env(CUE + "-still", "state").name == "metaworld-memory/pick-place-cue-still"
    with pytest.raises(UnknownNameError, match="Did you mean 'pick-place-cue'"):
        make_env("metaworld-memory/pick-place-que")
