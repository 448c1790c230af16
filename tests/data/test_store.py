import contextlib
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
import weakref
import zlib
from pathlib import Path

import numpy as np
import pytest
import zarr

from mgp import files
from mgp.data.checksums import seed_of
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


def content(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


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


def test_episodes_may_come_from_a_generator_one_at_a_time(tmp_path, store):
    alive = []

    def generated():
        for episode in episodes():
            copy = {key: value.copy() for key, value in episode.items()}
            alive.append(weakref.ref(copy["cloud"]))
            yield copy
            del copy
            assert all(ref() is None for ref in alive[:-1])

    other = EpisodeStore.write(tmp_path / "other", generated(), [4, 7], META)
    assert content(other.path) == content(store.path)
    assert len(alive) == 2


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


def test_odd_episodes_are_refused_by_name(tmp_path):
    def changed(key, value):
        return [{**episode, key: value} if n else episode for n, episode in enumerate(episodes())]

    for bad, named in (
        (changed("cloud", np.zeros((5, 9, 3))), r"data/cloud: episode 1 has \(9, 3\)"),
        (changed("rgb", np.zeros((5, 4, 4, 3))), "episode 1 has .* of float32 a step, the first .* of uint8"),
        ([{**episodes()[0], "../x": np.zeros(3)}], "letters, digits"),
        ([{"action": np.zeros((3, 0))}], "reshape it"),
        ([{"action": np.zeros((0, 2))}], "episode 0 has no steps"),
        ([{"state": np.zeros((3, 2))}], "no action, only state"),
        ([{"action": np.zeros((3, 2)), "text": np.array(["a", "b", "c"])}], "must hold numbers"),
        ([{"action": np.zeros((3, 2)), "rgb_left": np.zeros((3, 5), np.uint8)}], "height, width, 3"),
        ([], "0 episodes with 2 seeds"),
    ):
        with pytest.raises(DataError, match=named):
            EpisodeStore.write(tmp_path / "demos", bad, [0, 1], {})
    assert list(tmp_path.iterdir()) == []


def test_a_killed_writer_leaves_the_old(store):
    """kill -9 in the middle of an episode's files."""
    program = (
        "import os, signal, sys, numpy as np\n"
        "from mgp.data.store import EpisodeStore\n"
        "def episodes():\n"
        "    yield {'action': np.zeros((50, 2), np.float32)}\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "EpisodeStore.write(sys.argv[1], episodes(), [0, 1], {})\n"
    )
    done = subprocess.run([sys.executable, "-c", program, store.path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert EpisodeStore.open(store.path).seeds.tolist() == [4, 7]
    EpisodeStore.write(store.path, episodes((4,)), [9], META)
    assert [entry.name for entry in store.path.parent.iterdir()] == [store.path.name]


def test_missing_key_is_named(store):
    with pytest.raises(DataError, match=r"no 'depth'.*action, cloud"):
        store.load("depth")


def test_missing_store_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no store at .*nowhere"):
        EpisodeStore.open(tmp_path / "nowhere")


@pytest.mark.parametrize("key", ["action", "cloud"])
@pytest.mark.parametrize("damage", ["truncated", "missing", "empty"])
def test_a_file_of_another_size_is_refused_at_once(store, key, damage):
    file = chunk(store, key)
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()  # zarr alone would read zeros here
    else:
        file.write_bytes({"truncated": content[: len(content) // 2], "empty": b""}[damage])
    with pytest.raises(DataError, match=f"data/{key}/.* (is missing|its header wants {len(content)}).*restore it"):
        EpisodeStore.open(store.path)


@pytest.mark.parametrize("key", ["action", "cloud", "rgb"])
def test_altered_rows_are_found_when_read_and_not_before(store, key):
    file = chunk(store, key)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)
    again = EpisodeStore.open(store.path)
    with pytest.raises(DataError, match=f"data/{key}/0.* does not match its checksum at steps 0 to 7.*restore it"):
        again.load(key)
    for other in set(again.keys) - {key}:
        again.load(other)


def test_a_damaged_header_or_checksum_is_found_when_read(store):
    header = store.path / "data/rgb/.zarray"
    good = header.read_text()
    wide = good.replace("\n  4,\n  4,\n  3\n", "\n  2,\n  8,\n  3\n")
    assert wide != good
    header.write_text(wide)
    with pytest.raises(DataError, match=r"rgb/.* does not match its checksum"):
        EpisodeStore.open(store.path).load("rgb")
    header.write_text(good)
    sums = store.path / "checksums/data/cloud/0"
    sums.write_bytes(sums.read_bytes() + bytes(4))
    with pytest.raises(DataError, match="checksums/data/cloud is damaged"):
        EpisodeStore.open(store.path).load("cloud")
    sums.unlink()
    with pytest.raises(DataError, match="checksums/data/cloud is damaged or missing"):
        EpisodeStore.open(store.path).load("cloud")


def test_damaged_bounds_are_refused(store):
    (store.path / "meta/seeds/0").write_bytes(np.array([4, 8]).tobytes())
    with pytest.raises(DataError, match="meta/seeds/0 does not match its checksum"):
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


@pytest.mark.parametrize("ends", [[3, 8], [3, 6], [5, 3, 7], [0, 7]])
def test_wrong_ends_are_refused(tmp_path, ends):
    group = zarr.create_group(tmp_path / "bad.zarr", zarr_format=2)
    group.create_array("data/action", data=np.ones((7, 4), np.float32))
    group.create_array("meta/episode_ends", data=np.array(ends))
    with pytest.raises(DataError, match=r"episodes end at|increasing"):
        EpisodeStore.open(tmp_path / "bad.zarr")
