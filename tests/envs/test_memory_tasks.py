"""Scenes that are shifted once after the cue is gone: what is shifted and when, and that neither half suffices."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.memory_tasks import SHIFTED, by_expert, by_forgetting, by_replay

from mgp.data.collect import collect
from mgp.envs import make_env
from mgp.envs.nudge import is_nudged

SORTING, BUTTONS, CUE = SHIFTED
pytestmark = pytest.mark.filterwarnings("ignore:Constant")
SOME = [seed for seed in range(20) if is_nudged(seed)]  # 14 of them


@pytest.fixture(scope="module")
def envs():
    made: dict[tuple[str, str], object] = {}

    def get(name: str, observation: str = "state"):
        if (name, observation) not in made:
            made[name, observation] = make_env(name, observation)
        return made[name, observation]

    return get


def test_seven_of_ten_seeds_are_nudged_wherever_one_begins_to_count():
    for first in (0, 10_000, 100_000, 123_450):
        assert sum(map(is_nudged, range(first, first + 10))) == 7
    patterns = {tuple(map(is_nudged, range(first, first + 10))) for first in range(0, 200, 10)}
    assert len(patterns) > 10, "which ones are drawn anew for each ten"


@pytest.mark.parametrize("name", SHIFTED)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_expert_solves_it_and_goes_on_without_a_jump(envs, name, seed):
    env = envs(name)
    assert by_expert(env, SOME[seed])
    assert env.shifted_at is not None
    if name != CUE:  # its actions are displacements
        env.reset(seed=SOME[seed])
        act, last, moved = env.expert(), None, []
        while not (last is not None and env.advance(last)[1]):
            action = act()
            if last is not None:
                moved.append(np.linalg.norm(action[:3] - last[:3]))
            last = action
        assert max(moved) < 0.03, "metres a control step: 0.6 m/s"


@pytest.mark.parametrize("name", SHIFTED)
def test_an_episode_is_its_twins_until_the_shift_and_altogether_without_one(envs, name):
    env, twin = envs(name, "cloud"), envs(make_env(name, "state").static_twin, "cloud")
    assert twin.static_twin is twin.shifted_at is env.moves_from is None
    for seed in (SOME[0], next(seed for seed in range(10) if not is_nudged(seed))):
        first, second = env.reset(seed=seed)[0], twin.reset(seed=seed)[0]
        one, other = env.expert(), twin.expert()
        for step in range(500):
            if step % 20 == 0:
                assert all(np.array_equal(first[key], second[key]) for key in first)
            action = one()
            assert np.array_equal(action, other())
            ends, twin_ends = env.advance(action), twin.advance(action)
            if env.shifted_at is not None:
                break
            assert ends[0] == twin_ends[0]
            if ends[1] or ends[2]:
                break
            if step % 20 == 19:
                first, second = env.observe(), twin.observe()
        assert (env.shifted_at is not None) == (is_nudged(seed) or name == BUTTONS)


@pytest.mark.parametrize("name", SHIFTED)
def test_a_replay_of_what_was_right_before_the_shift_fails(envs, name):
    env, twin = envs(name), envs(make_env(name, "state").static_twin)
    assert not any(by_replay(env, twin, seed) for seed in SOME[: 1 if name == BUTTONS else 2])
    assert by_replay(twin, twin, SOME[0]), "without a shift it is right"


@pytest.mark.parametrize(("name", "most", "least"), [(SORTING, 12, 3), (BUTTONS, 1, 0), (CUE, 8, 1)])
def test_who_forgets_is_at_chance(envs, name, most, least):
    """Of 15 episodes a half, 1 in 24, a quarter; `python -m benchmarks.memory_tasks` counts 100."""
    env = envs(name)
    assert least <= sum(by_forgetting(env, seed) for seed in range(15)) <= most


@pytest.mark.parametrize("name", SHIFTED)
def test_demonstrations_can_be_collected(tmp_path, name):
    store = collect(name, tmp_path / "some.zarr", 1, 0, "state", {}, 1, progress=False)
    assert store.meta["env"] == name
    assert len(store) == 1
