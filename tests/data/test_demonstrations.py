from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import torch

from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.store import EpisodeStore


def counted() -> Demonstrations:
    """Three episodes of 5, 3 and 4 steps; each action is its own flat time."""
    time = torch.arange(12.0)[:, None]
    return Demonstrations({"action": time, "state": time}, torch.tensor([5, 8, 12]), (7, 8, 9))


def test_episodes_and_their_bounds():
    data = counted()
    assert data.starts.tolist() == [0, 5, 8]
    assert data.lengths.tolist() == [5, 3, 4]
    assert data.episode_of(torch.arange(12)).tolist() == [0] * 5 + [1] * 3 + [2] * 4


def test_history_repeats_the_first_frame_of_its_own_episode():
    times = counted().history(torch.tensor([0, 1, 4, 5, 7, 8, 11]), 3)
    assert times.tolist() == [[0, 0, 0], [0, 0, 1], [2, 3, 4], [5, 5, 5], [5, 6, 7], [8, 8, 8], [9, 10, 11]]


def test_action_windows_repeat_an_episodes_ends_and_never_reach_its_neighbour():
    windows = counted().action_windows(torch.tensor([-2, 3, 4, 6, 20]), 4, torch.tensor([0, 0, 1, 1, 2]))
    assert windows[..., 0].tolist() == [[0, 0, 0, 1], [3, 4, 4, 4], [5, 5, 6, 7], [6, 7, 7, 7], [11, 11, 11, 11]]


def test_the_first_episodes_only():
    data = counted().first(2)
    assert data.ends.tolist() == [5, 8]
    assert data.seeds == (7, 8)
    assert {len(array) for array in data.arrays.values()} == {8}
    assert counted().first(99).ends.tolist() == [5, 8, 12]


def test_from_a_store(tmp_path):
    random = np.random.default_rng(0)
    episodes = [
        {
            "action": random.normal(size=(n, 2)),
            "state": random.normal(size=(n, 4)),
            "cloud": random.normal(size=(n, 6, 3)),
        }
        for n in (3, 5)
    ]
    data = Demonstrations.from_store(EpisodeStore.write(tmp_path / "store.zarr", episodes, [4, 9], {"env": "x/y"}))
    assert data.seeds == (4, 9)
    assert data.ends.tolist() == [3, 8]
    assert data.meta["env"] == "x/y"
    for key, array in data.arrays.items():
        assert array.dtype == torch.float32
        np.testing.assert_allclose(array, np.concatenate([episode[key] for episode in episodes]), rtol=1e-6)


def test_a_keyed_generator_depends_on_its_key_alone():
    draw = lambda *key: torch.rand(4, generator=keyed_generator(*key))  # noqa: E731
    first = draw(3, 1, 7)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.rand(3)
    assert torch.equal(draw(3, 1, 7), first)
    others = [draw(*key) for key in ((3, 1, 8), (3, 2, 7), (4, 1, 7), (1, 3, 7), (3, 1), (3, 1, 7, 1), (-3, 1, 7))]
    assert not any(torch.equal(first, other) for other in others)


def test_a_keyed_generator_is_the_same_in_another_process():
    code = "import torch, mgp.data.demonstrations as d; print(torch.rand(3, generator=d.keyed_generator(3, 1, 7)).tolist())"  # noqa: E501
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == torch.rand(3, generator=keyed_generator(3, 1, 7)).tolist()
