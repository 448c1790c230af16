"""The button tasks: what counts as a press, what an episode is, and what can be seen of it."""

import numpy as np
import pytest
from seen import seen

from mgp.envs import make_env
from mgp.envs.so101 import buttons_scene as scene
from mgp.envs.so101 import plate
from mgp.envs.so101.button import COLOURS, DEBOUNCE, PRESSED
from mgp.envs.so101.buttons import ORDER
from mgp.envs.so101.buttons_expert import PRESS_HEIGHT, demonstrate

TASKS = ("on-off", "color-change", "shifted")


@pytest.fixture(scope="module")
def envs():
    return {task: make_env(f"buttons/{task}", "cloud") for task in TASKS}


def demonstration(env, places) -> np.ndarray:
    return demonstrate(places, env.robot_state()[:3], env.carriage.pose(), np.random.default_rng(0))


def play(env, actions, each=lambda: None) -> dict:
    """To the end of the actions or of the episode."""
    for action in actions:
        _, terminated, truncated, info = env.advance(action)
        each()
        if terminated or truncated:
            break
    return info | {"terminated": terminated, "steps": env._steps}


def expert(env):
    act = env.expert()
    while True:
        yield act()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("seed", [0, 1])
def test_expert_presses_in_order(envs, task, seed):
    env = envs[task]
    env.reset(seed=seed)
    info = play(env, expert(env))
    assert info["success"]
    assert info["terminated"]  # when the last button is released
    assert info["pressed"] == 4
    assert 250 <= info["steps"] <= 500


def test_demonstrations_differ(envs):
    """Episodes with the same colours at the same corners, by other seeds."""
    env, alike = envs["on-off"], {}
    for seed in range(60):
        env.reset(seed=seed)
        alike.setdefault(tuple(env.order), []).append(env.plan(np.random.default_rng(seed)))
    one, two = next(plans for plans in alike.values() if len(plans) > 1)[:2]
    assert len(alike) > 15  # of 24 orders
    length = min(len(one), len(two))
    assert len(one) != len(two) or np.abs(one - two).max() > 0.01
    assert np.abs(one[:length] - two[:length]).max() > 0.01


@pytest.mark.parametrize("task", TASKS)
def test_doing_nothing_presses_nothing(envs, task):
    env = envs[task]
    env.reset(seed=0)
    info = play(env, [env.hold_action] * env.horizon)
    assert (info["pressed"], info["wrong"], info["success"], info["terminated"]) == (0, False, False, False)
    assert info["steps"] == env.horizon


@pytest.mark.parametrize("task", TASKS)
def test_wrong_order_fails(envs, task):
    env = envs[task]
    env.reset(seed=0)
    places = [scene.PLACES[i] for i in env.order]
    info = play(env, demonstration(env, [places[0], places[2], places[1], places[3]]))
    assert (info["pressed"], info["wrong"], info["success"], info["terminated"]) == (1, True, False, True)


def test_twice_is_wrong(envs):
    env = envs["on-off"]
    env.reset(seed=0)
    place = scene.PLACES[env.order[0]]
    actions = demonstration(env, [place])
    press = actions[actions[:, 2].argmin() - 20 :]
    info = play(env, [*actions, *press])
    assert (info["pressed"], info["wrong"], info["terminated"]) == (1, True, True)


def test_half_pressed_is_not_pressed(envs):
    env = envs["on-off"]
    env.reset(seed=0)
    actions = demonstration(env, [scene.PLACES[i] for i in env.order])
    actions[:, 2] = np.maximum(actions[:, 2], PRESS_HEIGHT + 0.008)
    deepest = []
    info = play(env, actions, lambda: deepest.append(env.panel.travel().max()))
    assert 0.002 < max(deepest) < PRESSED
    assert (info["pressed"], info["wrong"], info["success"]) == (0, False, False)


def test_on_off_is_dark_only_while_pressed(envs):
    """And afterwards looks as before: nothing tells how far the episode is."""
    env = envs["on-off"]
    env.reset(seed=2)
    first, dark = env.scene_state(), []

    def look() -> None:
        shown = env.scene_state().reshape(4, 5)
        off = shown[:, list(COLOURS).index("off")].astype(bool)
        assert np.array_equal(off, env.panel.down)
        assert np.array_equal(shown[~off], first.reshape(4, 5)[~off])
        dark.append(off.any())

    play(env, expert(env), look)
    assert 8 < sum(dark) < 100
    assert np.array_equal(env.scene_state(), first)


def test_color_change_steps_the_colour(envs):
    env = envs["color-change"]
    env.reset(seed=2)
    names = list(COLOURS)

    def shown() -> list[str]:
        return [names[i] for i in env.scene_state().reshape(4, 5).argmax(1)]

    assert sorted(shown()) == sorted(ORDER)
    after = {"yellow": "red", "red": "green", "green": "blue", "blue": "off"}
    expected = [after[colour] for colour in shown()]
    play(env, expert(env))
    assert shown() == expected


@pytest.mark.parametrize("task", TASKS)
def test_rings_are_seen_in_their_colours(envs, task):
    env = envs[task]
    env.reset(seed=4)
    act, done = env.expert(), False
    while not done:
        if env._steps % 10 == 0:
            cloud = env.observe()["cloud"]
            labels = seen(env, cloud)
            assert cloud.shape == (1024, 6)
            for ring in env.panel.rings:
                points = cloud[labels == ring]
                assert len(np.unique(points, axis=0)) >= 15
                assert np.allclose(points[:, 3:], env.model.geom_rgba[ring, :3])
        done = env.advance(act())[1]


def test_state_is_robot_and_colours(envs):
    env = make_env("buttons/on-off", "state")
    observation, _ = env.reset(seed=0)
    assert observation["state"].shape == (41,)
    assert np.array_equal(observation["state"][:21], envs["on-off"].reset(seed=0)[0]["state"])
    assert observation["state"][21:].reshape(4, 5).sum(1).tolist() == [1, 1, 1, 1]


def test_trembling_presses_once(envs):
    """Down again too soon does not count; after a while it does."""
    env = envs["on-off"]
    env.reset(seed=0)

    def edges(travel: float, steps: int) -> int:
        env.data.joint(scene.BUTTONS[0]).qpos = -travel
        return sum(len(env.panel.update()) for _ in range(steps))

    assert edges(0.009, 3) == 1
    assert edges(0.003, 10) == 0  # neither pressed nor released
    assert edges(0.009, 3) == 0
    assert edges(0.0, 2) == 0
    assert edges(0.009, 3) == 0  # too soon
    assert edges(0.0, DEBOUNCE) == 0
    assert edges(0.009, 3) == 1


def until_shifted(env, seed: int) -> None:
    """By the expert, to the first step after the shift."""
    env.reset(seed=seed)
    act = env.expert()
    while env.shifted_at is None:
        _, terminated, truncated, _ = env.advance(act())
        assert not terminated
        assert not truncated


def test_the_plate_carries_everything_along(envs):
    """Where the buttons are seen, pressed and judged; and a reset puts it back."""
    env = envs["shifted"]
    for seed in range(3):
        env.reset(seed=seed)
        before = {name: env.data.geom(f"{name}_ring").xpos.copy() for name in scene.BUTTONS}
        assert np.allclose(list(before.values()), [[*place, 0.022] for place in scene.PLACES])
        until_shifted(env, seed)
        assert (env._done, env.panel.down.any(), env._wrong) == (2, False, False)
        assert env.robot_state()[2] > plate.CLEAR - 0.01
        offset = env._shift.offset
        assert plate.SHIFT[0] <= np.hypot(*offset) <= plate.SHIFT[1]
        assert np.abs(offset).min() < 0.01, "along a side, so that every button is in reach"
        for name, place in before.items():
            assert np.allclose(env.data.geom(f"{name}_ring").xpos[:2], place[:2] + offset)
            assert np.allclose(env.data.geom(f"{name}_cap").xpos[:2], place[:2] + offset)
        assert np.allclose(env.plate.places(), np.array(scene.PLACES) + offset)
        assert np.allclose(env.scene_state()[-2:], offset), "the state tells it too"
        cloud = env.observe()["cloud"]
        labels = seen(env, cloud)
        for name, ring in zip(scene.BUTTONS, env.panel.rings, strict=True):
            points = cloud[labels == ring]
            assert len(np.unique(points, axis=0)) >= 15
            assert np.allclose(points[:, 3:], env.model.geom_rgba[ring, :3])
            middle = before[name][:2] + offset
            assert np.hypot(*(points[:, :2] - middle).T).max() < 0.039


def test_the_oracle_follows_the_plate():
    env = make_env("buttons/shifted", "cloud", cloud="oracle", points=512)
    until_shifted(env, 0)
    cloud, labels = env.caster.labelled(env.data)
    for button, ring in enumerate(env.panel.rings):
        offsets = cloud[labels == ring, :2] - env.plate.places()[button]
        assert len(offsets) >= 20
        assert np.hypot(*offsets.T).max() < 0.039
