import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from seen import seen

from mgp.data.collect import collect
from mgp.envs import env_names, make_env
from mgp.envs.metaworld_dynamic import MOTIONS, tasks
from mgp.errors import UnknownNameError

pytestmark = pytest.mark.filterwarnings("ignore:Constant")

# the appendix: metres along x, and the control step at which they are covered
APPENDIX = {
    "pick-place-wall-target": (0.14, 67),
    "basketball": (0.10, 100),
    "pick-place-wall-wall": (-0.20, 200),
    "push-wall": (0.08, 67),
    "push": (0.10, 67),
}


def places(env) -> dict[str, np.ndarray]:
    """Where in the simulation everything is that may move."""
    sim = env._sim
    out = {"goal": sim._target_pos, "marker": sim.data.site("goal").xpos}
    for body in ("wall", "basket_goal"):
        if body in [sim.model.body(i).name for i in range(sim.model.nbody)]:
            out |= {body: sim.data.body(body).xpos, f"{body} in the model": sim.model.body(body).pos}
    return {name: np.array(place) for name, place in out.items()}


def movers(task: str) -> set[str]:
    if task.startswith("basketball"):
        return {"goal", "marker", "basket_goal", "basket_goal in the model"}
    wall = {"wall", "wall in the model"}
    return {"pick-place-wall-wall": wall, "push-wall": wall | {"goal", "marker"}}.get(task, {"goal", "marker"})


def hold(env, steps: int) -> None:
    for _ in range(steps):
        env.advance(env.hold_action)


def test_names():
    assert set(tasks()) == {*APPENDIX, "basketball-midway"}
    assert "metaworld-dynamic/push" in env_names()
    assert make_env("metaworld-dynamic/push", "state").name == "metaworld-dynamic/push"
    with pytest.raises(UnknownNameError, match="Did you mean 'push-wall'"):
        make_env("metaworld-dynamic/push-wal")
    with pytest.raises(UnknownNameError, match="Did you mean 'points'"):
        make_env("metaworld-dynamic/push", pionts=3)


@pytest.mark.parametrize("task", APPENDIX)
def test_motion_is_linear_over_the_range_of_the_appendix(task):
    motion, (distance, end) = MOTIONS[task], APPENDIX[task]
    assert [motion.offset(step) for step in (0, end, end + 1, 500)] == [0, distance, distance, distance]
    for step in range(end + 1):
        assert motion.offset(step) == pytest.approx(distance * step / end, abs=1e-15)


@pytest.mark.parametrize("task", tasks())
def test_what_moves_and_what_stays(task):
    """At several steps, exactly; and reset puts everything back."""
    env = make_env(f"metaworld-dynamic/{task}", "state")
    env.reset(seed=3)
    start, steps = places(env), 0
    for until in (1, 10, 60, 67, 68, 110, 200):
        hold(env, until - steps)
        steps = until
        assert env.offset == pytest.approx(env._sign * MOTIONS[task].offset(steps))
        for name, place in places(env).items():
            expected = start[name] + (np.array([env.offset, 0, 0]) if name in movers(task) else 0)
            np.testing.assert_allclose(place, expected, atol=1e-12, err_msg=f"{name} at step {steps}")
        np.testing.assert_allclose(env._state[-3:], env._sim._target_pos, atol=1e-12)  # not clipped
    env.reset(seed=3)
    assert env.offset == 0
    for name, place in places(env).items():
        np.testing.assert_array_equal(place, start[name], err_msg=f"{name} after reset")


@pytest.mark.parametrize("task", tasks())
def test_a_moving_scene_names_the_one_that_stands_still(task):
    env = make_env(f"metaworld-dynamic/{task}", "state")
    twin = make_env(env.static_twin, "state")
    assert twin.moves_from is twin.static_twin is None
    np.testing.assert_array_equal(env.reset(seed=3)[0]["state"], twin.reset(seed=3)[0]["state"])


def test_the_hoop_of_the_confidence_study_starts_halfway():
    env = make_env("metaworld-dynamic/basketball-midway", "state")
    env.reset(seed=0)
    start = env._sim._target_pos.copy()
    assert env.moves_from == 50
    hold(env, env.moves_from)
    assert np.array_equal(env._sim._target_pos, start)
    hold(env, 1)
    assert env._sim._target_pos[0] - start[0] == pytest.approx(0.001)
    hold(env, 99)
    assert env._sim._target_pos[0] - start[0] == pytest.approx(0.1)


def test_the_target_goes_either_way_with_equal_probability():
    env = make_env("metaworld-dynamic/pick-place-wall-target", "state")
    signs = []
    for seed in range(60):
        env.reset(seed=seed)
        signs.append(env._sign)
    assert 20 <= signs.count(1) <= 40
    assert signs.count(1) + signs.count(-1) == 60
    again = make_env("metaworld-dynamic/pick-place-wall-target", "state")
    again.reset(seed=signs.index(-1))
    assert again._sign == -1


@pytest.mark.parametrize("task", tasks())
def test_seeded_to_the_bit_and_accepted_by_gymnasium(task):
    env = make_env(f"metaworld-dynamic/{task}", "cloud", points=128, horizon=80)
    actions = np.random.default_rng(0).uniform(-1, 1, (70, 4)).astype(np.float32)

    def episode(seed):
        first, _ = env.reset(seed=seed)
        rewards = [env.advance(action)[0] for action in actions]
        last = env.observe()
        return [first["cloud"], last["cloud"], last["state"], env._state, np.array(rewards)]

    one = episode(7)
    other = episode(8)
    assert not np.array_equal(one[0], other[0])
    assert all(np.array_equal(a, b) for a, b in zip(one, episode(7), strict=True))
    static = make_env(f"metaworld/{MOTIONS[task].task}", "cloud", points=128)
    assert np.array_equal(static.reset(seed=7)[0]["cloud"], one[0]), "the start of the static task"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice: infinite bounds, no spec
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("task", tasks())
def test_the_cloud_shows_the_motion(task):
    """The middle of each thing's points goes along; what stands still stays."""
    env = make_env(f"metaworld-dynamic/{task}", "cloud")
    motion, model = MOTIONS[task], env._sim.model

    def middles() -> dict[str, float]:
        cloud = np.unique(env.observe()["cloud"], axis=0)
        labels = seen(env, cloud)
        roots = [model.body(model.body_rootid[model.geom_bodyid[i]]).name if i >= 0 else "marker" for i in labels]
        places = {name: cloud[np.array(roots) == name, 0] for name in set(roots)}
        return {name: (place.min() + place.max()) / 2 for name, place in places.items()}  # density follows the hand

    env.reset(seed=1)
    before = middles()
    hold(env, 66)
    after = middles()
    moving = {motion.body} | ({"marker"} if motion.goal else set()) | ({"obj"} if motion.puck else set())
    assert moving - {None} <= before.keys()
    for name in before.keys() & after.keys() - {"base"}:
        expected = env.offset if name in moving else 0
        if name == "marker" and task.startswith("basketball"):
            expected = env.offset  # it hangs on the hoop
        assert after[name] - before[name] == pytest.approx(expected, abs=0.01), name


@pytest.mark.parametrize("task", ["push", "push-wall", "pick-place-wall-target", "basketball"])
def test_success_is_judged_against_the_moved_goal(task):
    """An object put at the first goal is a success before the goal has left, and none afterwards."""
    env = make_env(f"metaworld-dynamic/{task}", "state")
    env.reset(seed=0)
    first = env._sim._target_pos.copy()

    def put(place) -> bool:
        env._touched = True  # nor carried along
        env._sim._set_obj_xyz(place)
        return env.advance(env.hold_action)[3]["success"]

    height = np.array([0, 0, 0.05 if task == "basketball" else 0])
    assert put(first + height)
    hold(env, 98)
    assert not put(first + height)
    assert put(env._sim._target_pos + height)


def test_the_puck_moves_until_it_is_touched():
    env = make_env("metaworld-dynamic/push", "state")
    env.reset(seed=0)
    x = env._state[4]
    hold(env, 67)
    assert env._state[4] - x == pytest.approx(0.1, abs=5e-4)
    hold(env, 30)
    assert env._state[4] - x == pytest.approx(0.1, abs=5e-4)

    env.reset(seed=0)
    expert = env.expert()
    while not env._touched:
        env.advance(expert())
    assert 10 < env._steps < 60
    assert np.linalg.norm(env._state[:3] - env._state[4:7]) < 0.1, "by the hand"
    before = env._sim.data.qpos.copy()
    env._before_step(env._steps + 1)
    assert np.array_equal(env._sim.data.qpos, before)
    env.reset(seed=0)
    assert not env._touched


@pytest.mark.parametrize("task", tasks())
def test_the_expert_solves_it(task):
    env = make_env(f"metaworld-dynamic/{task}", "state")
    env.reset(seed=2)
    expert = env.expert()
    assert any(env.advance(expert())[3]["success"] for _ in range(150))


def test_demonstrations_can_be_collected(tmp_path):
    store = collect("metaworld-dynamic/push", tmp_path / "push.zarr", 1, 0, "cloud", {"points": 16}, 1, progress=False)
    assert store.meta["env"] == "metaworld-dynamic/push"
    assert store.load("cloud").shape == (200, 16, 3)
