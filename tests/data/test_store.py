"""A store gives back what was written, reading no more than it must."""

import json
import os
import resource
import time
import zlib

import numpy as np
import pytest
import zarr
from toy_store import META, chunk, content, episodes

from mgp.data.checksums import seed_of
from mgp.data.demonstrations import Demonstrations
from mgp.data.store import EpisodeStore
from mgp.errors import DataError


@pytest.fixture
def store(tmp_path):
    return EpisodeStore.write(tmp_path / "demos", episodes(), [4, 7], META)


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
    assert len(content(store.path)) > 10
    assert content(store.path) == content(other.path)


@pytest.mark.parametrize("block", [1, 150, 2**15])
def test_many_files(tmp_path, monkeypatch, block):
    """Ours and zarr read the same, also where the last file has a hole at its end."""
    monkeypatch.setattr("mgp.data.writer.CHUNK_BYTES", 700)
    monkeypatch.setattr("mgp.data.checksums.BLOCK_BYTES", block)
    store = EpisodeStore.write(tmp_path / "demos", episodes((30, 21)), [0, 1], META)
    group = zarr.open_group(store.path, mode="r", zarr_format=2)
    for key in store.keys:
        expected = np.concatenate([e[key] for e in episodes((30, 21))]).astype(store.rows(key).dtype)
        assert np.array_equal(store.load(key), expected)
        assert np.array_equal(group[f"data/{key}"][...], expected)
    for number, episode in enumerate(store.episodes()):
        assert np.array_equal(episode["cloud"], episodes((30, 21))[number]["cloud"])


def test_numbers_keep_their_kind(tmp_path):
    rng = np.random.default_rng(0)
    episode = {
        "action": rng.normal(size=(4, 2)),
        "rgb_wrist": rng.integers(0, 255, (4, 2, 2, 3), dtype=np.uint8),
        "depth": rng.normal(size=(4, 2, 2)),
        "pressed": np.array([True, False, True, True]),
        "count": np.arange(4, dtype=np.int32),
        "raw_depth": np.arange(4, dtype=">u2"),
    }
    store = EpisodeStore.write(tmp_path / "demos", [episode], [0], {})
    kinds = {key: str(store.load(key).dtype) for key in store.keys}
    assert kinds == {
        "action": "float32",
        "rgb_wrist": "uint8",
        "depth": "float32",
        "pressed": "bool",
        "count": "int32",
        "raw_depth": "uint16",
    }
    assert all(np.array_equal(store.load(key), episode[key].astype(kinds[key])) for key in kinds)


def test_instructions_one_for_every_episode(tmp_path):
    texts = ["press the red button", "drücke den grünen"]
    store = EpisodeStore.write(tmp_path / "demos", episodes(), [4, 7], META, texts)
    again = EpisodeStore.open(store.path)
    assert again.instructions == texts
    assert "instructions" not in again.meta
    assert Demonstrations.from_store(again).first(1).instructions == (texts[0],)
    for wrong, named in ((texts[:1], "1 instructions for 2 episodes"), (["a", " "], "episode 1"), ("ab", "one for")):
        with pytest.raises(DataError, match=named):
            EpisodeStore.write(store.path, episodes(), [4, 7], META, wrong)
    assert EpisodeStore.open(store.path).instructions == texts


def test_opening_costs_nothing_whatever_the_size(tmp_path):
    """A store of 245 GB, of which only the headers exist."""
    store = EpisodeStore.write(tmp_path / "demos", episodes((10,)), [0], META)
    steps = 10_000_000
    for name in ("data/action", "data/state", "data/cloud", "data/rgb"):
        header = json.loads((store.path / name / ".zarray").read_text())
        if name == "data/cloud":
            header["shape"] = header["chunks"] = [steps, 1024, 6]
        header["shape"][0] = header["chunks"][0] = steps
        (store.path / name / ".zarray").write_text(json.dumps(header))
        size = int(np.prod(header["shape"])) * np.dtype(header["dtype"]).itemsize
        os.truncate(chunk(store, name.removeprefix("data/")), size)
    ends = np.array([steps])
    (store.path / "meta/episode_ends/0").write_bytes(ends.tobytes())
    sums = zlib.crc32(ends.tobytes(), seed_of(ends.dtype, ()))
    (store.path / "checksums/meta/episode_ends/0").write_bytes(np.array([sums], "<u4").tobytes())
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    again = EpisodeStore.open(store.path)
    assert time.perf_counter() - start < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kB
    assert again.rows("cloud").shape == (steps, 1024, 6)
