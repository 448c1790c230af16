import contextlib
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import zarr

from mgp import files
from mgp.data.demonstrations import Demonstrations
from mgp.data.store import EpisodeStore
from mgp.errors import DataError

META = {"env": "toy/line", "observation": "cloud", "options": {"points": 8}, "horizon": 5, "hold_action": [0.0, 0.0]}


def episodes(lengths=(3, 5), seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "action": rng.normal(size=(n, 2)).astype(np.float32),
            "state": rng.normal(size=(n, 9)),  # float64 on purpose
            "cloud": rng.normal(size=(n, 8, 3)).astype(np.float32),
            "rgb": rng.integers(0, 255, (n, 4, 4, 3), dtype=np.uint8),
        }
        for n in lengths
    ]


@pytest.fixture
def store(tmp_path):
    return EpisodeStore.write(tmp_path / "demos", episodes(), [4, 7], META)


def chunk(store, key):
    return next(file for file in (store.path / "data" / key).iterdir() if not file.name.startswith("."))


def test_round_trip(store):
    again = EpisodeStore.open(store.path)
    assert len(again) == 2
    assert again.keys == ["action", "cloud", "rgb", "state"]
    assert again.lengths.tolist() == [3, 5]
    assert again.episode_ends.tolist() == [3, 8]
    assert again.seeds.tolist() == [4, 7]
    assert META.items() <= again.meta.items()
    for key in again.keys:
        expected = np.concatenate([episode[key] for episode in episodes()])
        array = again.load(key)
        assert array.dtype == (np.uint8 if key == "rgb" else np.float32)
        assert np.array_equal(array, expected.astype(array.dtype))


def test_layout_is_zarr_2_as_diffusion_policy_has_it(store):
    group = zarr.open_group(store.path, mode="r", zarr_format=2)
    assert group["meta/episode_ends"][...].tolist() == [3, 8]
    assert group["data/cloud"].shape == (8, 8, 3)


def test_same_content_same_bytes(tmp_path, store):
    other = EpisodeStore.write(tmp_path / "other", episodes(), [4, 7], META)
    files = [file.relative_to(store.path) for file in store.path.rglob("*") if file.is_file()]
    assert len(files) > 10
    assert all((store.path / file).read_bytes() == (other.path / file).read_bytes() for file in files)


def test_many_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("mgp.data.store.CHUNK_BYTES", 200)
    store = EpisodeStore.write(tmp_path / "demos", episodes((30, 20)), [0, 1], META)
    assert np.array_equal(store.load("cloud"), np.concatenate([e["cloud"] for e in episodes((30, 20))]))


def test_missing_key_is_named(store):
    with pytest.raises(DataError, match=r"no 'depth'.*action, cloud"):
        store.load("depth")


def test_missing_store_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no store at .*nowhere"):
        EpisodeStore.open(tmp_path / "nowhere")


@pytest.mark.parametrize("key", ["action", "cloud"])
@pytest.mark.parametrize("damage", ["truncated", "altered", "missing", "empty"])
def test_damaged_chunk_is_refused(store, key, damage):
    file = chunk(store, key)
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()  # zarr alone would read zeros here
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]
        file.write_bytes({"truncated": content[:middle], "altered": flipped, "empty": b""}[damage])
    with pytest.raises(DataError, match=f"data/{key}"):
        EpisodeStore.open(store.path)


@pytest.mark.parametrize("name", ["meta", "data", "data/action/.zarray", "meta/episode_ends/.zarray", ".zgroup"])
def test_half_a_store_is_refused(store, name):
    path = store.path / name
    path.rename(store.path.parent / "elsewhere")
    with pytest.raises(DataError):
        EpisodeStore.open(store.path)


def test_damaged_header_is_refused(store):
    (store.path / "data/action/.zarray").write_text("{")
    with pytest.raises(DataError, match="zarray is damaged"):
        EpisodeStore.open(store.path)


def test_other_format_is_refused(store):
    attributes = store.path / ".zattrs"
    attributes.write_text(json.dumps(json.loads(attributes.read_text()) | {"format": 99}))
    with pytest.raises(DataError, match="format 99"):
        EpisodeStore.open(store.path)


def test_nothing_is_unpickled(store):
    """A pickle in a chunk, and a header that asks for it to be run."""
    header = store.path / "data/action/.zarray"
    fields = json.loads(header.read_text())

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(store.path / "exploded"),)

    for change in ({"filters": [{"id": "pickle"}]}, {"dtype": "|O"}, {"compressor": {"id": "pickle"}}):
        header.write_text(json.dumps(fields | change))
        chunk(store, "action").write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(DataError, match="only plain numbers"):
            EpisodeStore.open(store.path)
    assert not (store.path / "exploded").exists()


@pytest.mark.parametrize("key", ["action", "state", "cloud"])
def test_not_finite_is_refused(tmp_path, key):
    bad = episodes()
    bad[1][key][2].flat[0] = np.nan
    with pytest.raises(DataError, match=f"{key} is not finite at step 5"):
        EpisodeStore.write(tmp_path / "demos", bad, [0, 1], META)
    assert not (tmp_path / "demos").exists()


def test_uneven_episodes_are_refused(tmp_path):
    for change in ({"action": np.zeros((2, 2))}, {"extra": np.zeros(5)}):
        bad = episodes()
        bad[1].update(change)
        with pytest.raises(DataError, match="differ in keys"):
            EpisodeStore.write(tmp_path / "demos", bad, [0, 1], META)
    with pytest.raises(DataError, match="2 episodes with 1 seeds"):
        EpisodeStore.write(tmp_path / "demos", episodes(), [0], META)


@pytest.mark.parametrize("crash_at", [0, 1, 2, 3])
def test_replacing_leaves_the_old_or_the_new(store, monkeypatch, crash_at):
    """The power goes before the n-th rename: one of the two is there, whole."""
    calls = []
    rename = os.replace

    def crash(source, target):
        if Path(target).parent != store.path.parent:  # zarr's own, inside of the folder
            return rename(source, target)
        if len(calls) == crash_at:
            raise KeyboardInterrupt
        calls.append(source)
        rename(source, target)

    monkeypatch.setattr(files.os, "replace", crash)
    new = episodes((4,), seed=1)
    with contextlib.suppress(KeyboardInterrupt):
        EpisodeStore.write(store.path, new, [9], META)
    monkeypatch.setattr(files.os, "replace", rename)
    again = EpisodeStore.open(store.path)
    assert again.seeds.tolist() == ([9] if crash_at >= 2 else [4, 7])
    EpisodeStore.write(store.path, new, [9], META)
    assert EpisodeStore.open(store.path).seeds.tolist() == [9]
    assert [entry.name for entry in store.path.parent.iterdir()] == [store.path.name]


def test_failure_while_writing_leaves_the_old(store, monkeypatch):
    def full(path):
        raise OSError("No space left on device")

    monkeypatch.setattr(files, "fsync_path", full)
    with pytest.raises(OSError, match="No space"):
        EpisodeStore.write(store.path, episodes((4,)), [9], META)
    assert EpisodeStore.open(store.path).seeds.tolist() == [4, 7]
    assert [entry.name for entry in store.path.parent.iterdir()] == [store.path.name]


def test_archives_of_dp3(tmp_path):
    """As DP3 writes them: other names, colours behind xyz, no metadata, no checksums."""
    group = zarr.create_group(tmp_path / "dp3.zarr", zarr_format=2)
    data = {
        "point_cloud": np.random.default_rng(0).normal(size=(7, 16, 6)).astype(np.float32),
        "state": np.ones((7, 9), np.float32),
        "action": np.ones((7, 4), np.float32),
        "img": np.zeros((7, 4, 4, 3), np.uint8),
    }
    for key, array in data.items():
        group.create_array(f"data/{key}", data=array)
    group.create_array("meta/episode_ends", data=np.array([3, 7]))
    store = EpisodeStore.open(tmp_path / "dp3.zarr")
    assert store.keys == ["action", "cloud", "rgb", "state"]
    assert np.array_equal(store.load("cloud"), data["point_cloud"])
    assert np.array_equal(Demonstrations.from_store(store).arrays["cloud"], data["point_cloud"][..., :3])
    assert np.array_equal(Demonstrations.from_store(store, colour=True).arrays["cloud"], data["point_cloud"])
    assert store.lengths.tolist() == [3, 4]
    assert len(store.seeds) == 0
    assert store.meta == {}


@pytest.mark.parametrize("ends", [[3, 8], [3, 6], [5, 3, 7], [0, 7]])
def test_wrong_ends_are_refused(tmp_path, ends):
    group = zarr.create_group(tmp_path / "bad.zarr", zarr_format=2)
    group.create_array("data/action", data=np.ones((7, 4), np.float32))
    group.create_array("meta/episode_ends", data=np.array(ends))
    with pytest.raises(DataError, match=r"episodes end at|increasing"):
        EpisodeStore.open(tmp_path / "bad.zarr")
