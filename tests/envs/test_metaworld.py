import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from seen import seen

from mgp.envs import env_names, make_env
from mgp.envs.metaworld import tasks
from mgp.errors import ConfigError, SimulationError, UnknownNameError

pytestmark = pytest.mark.filterwarnings("ignore:Constant")  # Meta-World's experts command more than 1


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def test_names():
    assert len(tasks()) == 50
    assert "metaworld/assembly" in env_names()


@pytest.mark.parametrize("task", tasks())
def test_every_task(task):
    """Built, bit-identical for a seed, and with a cloud in which objects and their moving parts are seen."""
    env = make_env(f"metaworld/{task}", "cloud")
    first, _ = env.reset(seed=7)
    assert env.observation_space.contains(first)
    most, expert = np.zeros(env._scene.things, int), env.expert()
    for step in range(41):  # the arm may stand before something at first
        if step % 20 == 0:
            cloud = np.unique(env.observe()["cloud"], axis=0)
            assert env._look.crop.keep(cloud).all()
            labels = seen(env, cloud)
            counts = np.bincount(env._scene.thing[labels[labels >= 0]], minlength=env._scene.things)
            most = np.maximum(most, counts)
        env.advance(expert())
    robot = env._scene.thing[env._scene.robot].max()  # hand and fingers are one thing
    assert most[robot] == 0
    assert (np.delete(most, robot)[1:] >= 10).all(), most  # thing 0 is the goal markers
    env.reset(seed=7)

    state, goal = env._state, env._sim._target_pos.copy()
    actions = np.random.default_rng(0).uniform(-1, 1, (5, 4)).astype(np.float32)
    ends = [env.step(action)[0] for action in actions]
    other, _ = env.reset(seed=8)
    assert not same(first, other)
    # an environment that has been used elsewhere comes back to the same bits
    again, _ = env.reset(seed=7)
    assert same(first, again)
    assert np.array_equal(state, env._state)
    assert np.array_equal(goal, env._sim._target_pos)
    assert all(same(end, env.step(action)[0]) for end, action in zip(ends, actions, strict=True))
    env.close()


@pytest.mark.parametrize("observation", ["state", "cloud"])
def test_gymnasium_accepts_it(observation):
    env = make_env("metaworld/reach", observation, horizon=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice: infinite bounds, no spec
        check_env(env, skip_render_check=True)


def test_unseeded_resets_follow_the_seed():
    env = make_env("metaworld/push", "state")
    env.reset(seed=3)
    second, _ = env.reset()
    env.reset(seed=3)
    assert same(second, env.reset()[0])
    assert not same(second, env.reset()[0])


def test_advance_and_observe_is_step():
    one, two = make_env("metaworld/push", "cloud", points=64), make_env("metaworld/push", "cloud", points=64)
    assert same(one.reset(seed=1)[0], two.reset(seed=1)[0])
    expert = one.expert()
    for _ in range(5):
        action = expert()
        observation, reward, terminated, truncated, info = one.step(action)
        assert (reward, terminated, truncated) == two.advance(action)[:3]
        two.observe()  # looking changes nothing
        assert same(observation, two.observe())
        assert isinstance(info["success"], bool)


def test_expert_solves_it_and_the_horizon_ends_it():
    env = make_env("metaworld/reach", "state")
    env.reset(seed=0)
    expert = env.expert()
    solved = False
    for step in range(env.horizon):
        action = expert()
        assert np.abs(action).max() <= 1
        assert action.dtype == np.float32
        _, _, truncated, info = env.advance(action)
        solved |= info["success"]
        assert truncated == (step == env.horizon - 1)
    assert solved
    with pytest.raises(SimulationError, match="horizon of 200"):
        env.advance(env.hold_action)


def test_expert_needs_only_the_present_state():
    """The same actions whatever is observed."""
    actions = []
    for observation in ("state", "cloud"):
        env = make_env("metaworld/push", observation)
        env.reset(seed=2)
        expert = env.expert()
        taken = []
        for _ in range(10):
            taken.append(expert())
            env.advance(taken[-1])
        actions.append(taken)
    assert np.array_equal(*actions)


def test_holding_stays():
    env = make_env("metaworld/reach", "cloud", points=16)
    before = env.reset(seed=0)[0]["state"]
    for _ in range(10):
        env.advance(env.hold_action)
    assert np.abs(env.observe()["state"][:3] - before[:3]).max() < 5e-3


def test_actions_are_clipped():
    one, two = make_env("metaworld/reach", "state"), make_env("metaworld/reach", "state")
    one.reset(seed=0)
    two.reset(seed=0)
    assert same(one.step(np.array([25, -25, 0.5, 3]))[0], two.step(np.array([1, -1, 0.5, 1]))[0])


@pytest.mark.parametrize("action", [np.zeros(3), np.zeros((1, 4)), [0, 0, 0, np.nan], [np.inf, 0, 0, 0], "left", None])
def test_bad_actions_are_refused(action):
    env = make_env("metaworld/reach", "state")
    env.reset(seed=0)
    with pytest.raises(SimulationError, match="metaworld/reach takes actions of 4"):
        env.step(action)


def test_use_before_reset_is_refused():
    env = make_env("metaworld/reach", "cloud")
    for use in (env.observe, env.picture, env.expert(), lambda: env.step(env.hold_action)):
        with pytest.raises(SimulationError, match="reset"):
            use()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("metaworld/assembli", {}, "Did you mean 'assembly'"),
        ("metaverse/assembly", {}, "Did you mean 'metaworld'"),
        ("metaworld/push", {"observation": "clouds"}, "Did you mean 'cloud'"),
        ("metaworld/push", {"pionts": 3}, "Did you mean 'points'"),
    ],
)
def test_unknown_names_are_answered(name, options, message):
    with pytest.raises(UnknownNameError, match=message):
        make_env(name, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"points": 0},
        {"points": 1e3},
        {"points": True},
        {"size": 8},
        {"horizon": 501},
        {"depth_noise": 1},
        {"camera_shift": "no"},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(ConfigError, match="must be"):
        make_env("metaworld/push", **options)


def test_picture_shows_the_scene():
    env = make_env("metaworld/push", "state")
    env.reset(seed=0)
    picture = env.picture(96)
    assert picture.shape == (96, 96, 3)
    assert picture.dtype == np.uint8
    assert np.array_equal(picture, env.picture(96))
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    assert ((red > 150) & (green < 60) & (blue < 60)).sum() > 5  # the puck
    assert ((green > 150) & (red < 60) & (blue < 60)).sum() > 5  # the goal
