"""Arrays on disk behave as those in memory, to the bit."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest
import torch

import small
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.lazy import LazyArray
from mgp.data.store import EpisodeStore
from mgp.errors import DataError

LENGTHS = (30, 21, 9)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Several files an array, a few rows a checksum."""
    monkeypatch.setattr("mgp.data.writer.CHUNK_BYTES", 2000)
    monkeypatch.setattr("mgp.data.checksums.BLOCK_BYTES", 500)
    random = np.random.default_rng(0)
    episodes = [
        {
            "action": random.normal(size=(n, 2)),
            "state": random.normal(size=(n, 4)),
            "cloud": random.normal(size=(n, 6, 6)),
            "rgb": random.integers(0, 255, (n, 4, 4, 3), dtype=np.uint8),
            "pressed": random.random(n) < 0.5,
        }
        for n in LENGTHS
    ]
    return EpisodeStore.write(tmp_path / "demos", episodes, range(3), {})


def test_every_index_gives_what_memory_gives(store):
    lazy = Demonstrations.from_store(store, memory=0)
    memory = Demonstrations.from_store(store)
    assert [key for key, array in lazy.arrays.items() if isinstance(array, LazyArray)] == ["pressed", "rgb", "cloud"]
    assert not any(isinstance(array, LazyArray) for array in memory.arrays.values())
    random = torch.Generator().manual_seed(0)
    for key, array in memory.arrays.items():
        other = lazy.arrays[key]
        assert (other.shape, other.dtype, other.ndim, len(other)) == (array.shape, array.dtype, array.ndim, len(array))
        indices = [torch.randint(-60, 60, shape, generator=random) for shape in ((), (7,), (3, 4), (2, 1, 3), (0,))]
        indices += [torch.arange(60), torch.arange(59, -1, -1), torch.tensor([5, 6, 7, 7, 8, 3, 3], dtype=torch.int32)]
        slices = [slice(None), slice(12), slice(10, 50), slice(None, None, 7), slice(-5, None)]
        for index in [*indices, 0, -1, 59, np.int64(3)]:
            assert torch.equal(other[index], array[index])
        for part in slices:
            assert torch.equal(other[part], array[part])
        for wrong in (60, -61, torch.tensor([3, 60])):
            with pytest.raises(IndexError):
                other[wrong]


def test_an_index_that_is_none_is_refused(store):
    cloud = LazyArray(store.rows("cloud"))
    for wrong in (torch.tensor([True, False]), torch.tensor([1.0]), (0, 1), None):
        with pytest.raises(TypeError, match="reads no rows"):
            cloud[wrong]


def test_the_first_episodes_stay_on_disk(store):
    lazy, memory = Demonstrations.from_store(store, 0).first(2), Demonstrations.from_store(store).first(2)
    assert isinstance(lazy.arrays["cloud"], LazyArray)
    assert lazy.arrays["cloud"].shape == (51, 6, 6)
    assert torch.equal(lazy.arrays["cloud"][:], memory.arrays["cloud"])
    assert torch.equal(lazy.arrays["cloud"][-1], memory.arrays["cloud"][-1])
    with pytest.raises(IndexError):
        lazy.arrays["cloud"][51]


@pytest.mark.parametrize("memory", [0, 2**30])
def test_any_episodes_may_be_chosen(store, memory):
    whole, some = Demonstrations.from_store(store), Demonstrations.from_store(store, memory, episodes=[0, 2])
    assert some.seeds == (whole.seeds[0], whole.seeds[2])
    assert some.lengths.tolist() == whole.lengths[[0, 2]].tolist()
    times = torch.cat([torch.arange(int(whole.starts[e]), int(whole.ends[e])) for e in (0, 2)])
    for key, array in some.arrays.items():
        assert torch.equal(array[:], whole.arrays[key][times]), key
    assert torch.equal(some.first(1).arrays["cloud"][:], whole.first(1).arrays["cloud"])


def test_small_arrays_are_loaded_first(store):
    sizes = {key: LazyArray(store.rows(key)).nbytes for key in store.keys}
    budget = sizes["action"] + sizes["state"] + sizes["pressed"] + sizes["rgb"]
    on_disk = lambda memory: {  # noqa: E731
        key for key, a in Demonstrations.from_store(store, memory).arrays.items() if isinstance(a, LazyArray)
    }
    assert on_disk(budget) == {"cloud"}
    assert on_disk(budget - 1) == {"cloud", "rgb"}
    assert on_disk(0) == {"cloud", "rgb", "pressed"}


def test_only_the_keys_asked_for(store):
    assert sorted(Demonstrations.from_store(store, keys=["cloud", "action"]).arrays) == ["action", "cloud"]
    with pytest.raises(DataError, match="has no 'depth'"):
        Demonstrations.from_store(store, keys=["action", "depth"])


@pytest.mark.parametrize("kind", ["short", "long"])
def test_training_draws_the_same_batches(tmp_path, kind):
    store = EpisodeStore.open(small.store(tmp_path / "clouds", "cloud"))
    config = small.tiny(kind, "cloud", **{"augmentation.rotation": 20.0, "augmentation.cloud_noise": 0.01})
    drawn = []
    for memory in (0, 2**30):
        data = Demonstrations.from_store(store, memory)
        policy = small.policy(config, data)
        batch = policy.source(policy.stages()[-1], data).draw(16, keyed_generator(3))
        looks = batch.looks
        seen = [looks.state, looks.frames["cloud"], looks.which, looks.hand]
        drawn.append([*policy.state_dict().values(), *seen, batch.actions, batch.inside, *batch.extra.values()])
    assert len(drawn[0]) > 20
    assert all(torch.equal(a, b) for a, b in zip(*drawn, strict=True))


def test_pieces_are_the_whole(store):
    for memory in (0, 2**20):
        data = Demonstrations.from_store(store, memory)
        clouds, states = zip(*data.pieces("cloud", "state", rows=7), strict=True)
        assert torch.equal(torch.cat(clouds), torch.from_numpy(store.load("cloud")))
        assert torch.equal(torch.cat(states), torch.from_numpy(store.load("state")))


def test_damage_is_found_by_the_row_that_has_it_alone(store):
    row = 144  # bytes of a cloud; three a checksum
    file = store.path / "data/cloud/1.0.0"  # rows 12 to 23
    content = bytearray(file.read_bytes())
    content[4 * row] ^= 1
    file.write_bytes(content)
    cloud = LazyArray(EpisodeStore.open(store.path).rows("cloud"))
    cloud[torch.tensor([0, 14, 18, 59])]
    for _ in range(2):  # not taken for verified after the first look
        with pytest.raises(DataError, match=r"cloud/1.0.0 does not match its checksum at steps 15 to 17"):
            cloud[torch.tensor([14, 16])]


def test_each_row_is_verified_once(store, monkeypatch):
    checked = []
    monkeypatch.setattr("mgp.data.rows.check_finite", lambda where, part, step: checked.append(step))
    cloud = LazyArray(EpisodeStore.open(store.path).rows("cloud"))
    checked.clear()  # the bounds of the episodes
    cloud[torch.tensor([1, 4, 1])]
    assert checked == [0, 3]
    cloud[:7]
    assert checked == [0, 3, 6]


def test_it_goes_to_another_process(store):
    cloud = LazyArray(store.rows("cloud"))
    copy = pickle.loads(pickle.dumps(cloud))
    assert torch.equal(copy[10:20], cloud[10:20])
    old = pickle.loads(pickle.dumps(Demonstrations.from_store(store, 0)))
    assert torch.equal(old.arrays["rgb"][3], torch.from_numpy(store.load("rgb")[3]))


def test_a_store_that_is_replaced_meanwhile_is_never_mixed(store):
    cloud = LazyArray(store.rows("cloud"))
    cloud[0]
    episodes = [{key: value[:5] for key, value in episode.items()} for episode in store.episodes()]
    EpisodeStore.write(store.path, episodes, range(3), {})
    with pytest.raises(DataError, match="open the store again"):
        cloud[40]


def test_files_that_vanish_are_named(store):
    cloud = LazyArray(store.rows("cloud"))
    shutil.rmtree(store.path / "data/cloud")
    with pytest.raises(DataError, match="data/cloud cannot be read"):
        cloud[3]
