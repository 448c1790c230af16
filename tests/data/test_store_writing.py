"""Writing: what is refused, and that the old store stays until the new one is whole."""

import contextlib
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
from toy_store import META, content, episodes

from mgp import files
from mgp.data.store import EpisodeStore
from mgp.errors import DataError


@pytest.fixture
def store(tmp_path):
    return EpisodeStore.write(tmp_path / "demos", episodes(), [4, 7], META)


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
