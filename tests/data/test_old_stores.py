"""Stores of format 1 and archives of DP3 open, read and can be written anew."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from old_store import write_dp3, write_format_1

from mgp.data.demonstrations import Demonstrations
from mgp.data.lazy import LazyArray
from mgp.data.store import EpisodeStore
from mgp.errors import DataError


def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "action": random.normal(size=(7, 4)).astype(np.float32),
        "state": random.normal(size=(7, 9)).astype(np.float32),
        "cloud": random.normal(size=(7, 16, 6)).astype(np.float32),
        "rgb": random.integers(0, 255, (7, 4, 4, 3), dtype=np.uint8),
    }


@pytest.fixture
def first(tmp_path):
    write_format_1(tmp_path / "old", arrays(), [3, 7], [1, 2], {"env": "toy/line"})
    return tmp_path / "old"


def test_format_1_is_read(first):
    store = EpisodeStore.open(first)
    assert store.seeds.tolist() == [1, 2]
    assert store.meta == {"env": "toy/line"}
    for key, expected in arrays().items():
        assert store.load(key).dtype == expected.dtype
        assert np.array_equal(store.load(key), expected)


def test_format_1_is_read_by_rows_within_a_small_memory(first, monkeypatch):
    monkeypatch.setattr("mgp.data.archive.CACHE_BYTES", 2000)  # one chunk of three
    lazy = Demonstrations.from_store(EpisodeStore.open(first), memory=0).arrays
    assert isinstance(lazy["cloud"], LazyArray)
    index = torch.tensor([[6, 0], [3, 3], [5, 1]])
    for key in ("cloud", "rgb"):
        assert torch.equal(lazy[key][index], torch.from_numpy(arrays()[key])[index])


@pytest.mark.parametrize("damage", ["altered", "missing", "no checksum"])
def test_damage_in_format_1_is_found_when_read_and_not_before(first, damage):
    file = first / "data/cloud/1.0.0"
    if damage == "altered":
        file.write_bytes((first / "data/cloud/0.0.0").read_bytes())
    elif damage == "missing":
        file.unlink()
    else:
        attributes = json.loads((first / ".zattrs").read_text())
        del attributes["checksums"]["data/cloud"]
        (first / ".zattrs").write_text(json.dumps(attributes))
    store = EpisodeStore.open(first)
    store.load("action")
    with pytest.raises(DataError, match="data/cloud does not match its checksum"):
        LazyArray(store.rows("cloud"))[0]  # another row, but one checksum stands for all


def test_archives_of_dp3(tmp_path):
    data = arrays()
    data["point_cloud"], data["img"] = data.pop("cloud"), data.pop("rgb")
    write_dp3(tmp_path / "dp3.zarr", data, [3, 7])
    store = EpisodeStore.open(tmp_path / "dp3.zarr")
    assert store.keys == ["action", "cloud", "rgb", "state"]
    assert np.array_equal(store.load("cloud"), data["point_cloud"])
    assert store.lengths.tolist() == [3, 4]
    assert len(store.seeds) == 0
    assert store.meta == {}
    for memory in (0, 2**20):
        for colour, width in ((None, 6), (True, 6), (False, 3)):
            cloud = Demonstrations.from_store(store, memory, colour).arrays["cloud"]
            assert cloud.shape == (7, 16, width)
            assert np.array_equal(cloud[:], data["point_cloud"][..., :width])


def test_floats_of_another_width_come_as_float32(tmp_path):
    wide = {"action": np.linspace(0, 1, 14).reshape(7, 2), "state": np.ones((7, 2), ">f8")}
    write_dp3(tmp_path / "wide", wide, [7])
    data = Demonstrations.from_store(EpisodeStore.open(tmp_path / "wide"))
    assert data.arrays["state"].dtype == data.arrays["action"].dtype == torch.float32
    assert np.array_equal(data.arrays["action"], wide["action"].astype(np.float32))


def test_what_is_not_finite_is_named_when_read(tmp_path):
    data = arrays()
    data["cloud"][4, 0, 0] = np.nan
    write_dp3(tmp_path / "bad", data, [7])
    store = EpisodeStore.open(tmp_path / "bad")
    with pytest.raises(DataError, match="data/cloud is not finite at step 4"):
        store.load("cloud")


def test_an_old_store_becomes_a_new_one(first):
    old = EpisodeStore.open(first)
    EpisodeStore.write(first, old.episodes(), old.seeds, old.meta)
    new = EpisodeStore.open(first)
    assert json.loads((first / ".zattrs").read_text())["format"] == 2
    assert (new.seeds.tolist(), new.meta) == ([1, 2], {"env": "toy/line"})
    assert all(np.array_equal(new.load(key), expected) for key, expected in arrays().items())
