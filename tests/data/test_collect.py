import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from old_store import write_format_1

from mgp.data.collect import collect
from mgp.data.record import Recorder
from mgp.data.store import EpisodeStore
from mgp.envs import make_env
from mgp.errors import ConfigError, DataError

pytestmark = pytest.mark.filterwarnings("ignore:Constant")  # Meta-World's experts command more than 1

# reach is solved within 100 steps; the state is quick to observe
QUICK = {"env_name": "metaworld/reach", "observation": "state", "options": {"horizon": 100}, "progress": False}


def content(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Four demonstrations collected in one go."""
    return collect(path=tmp_path_factory.mktemp("plain") / "demos", episodes=4, workers=1, **QUICK)


def failing(monkeypatch, *seeds):
    """Make the expert fail at these seeds."""
    play = Recorder.__call__

    def sometimes(self, seed):
        episode = play(self, seed)
        if seed in seeds:
            episode["success"][:] = False
        return episode

    monkeypatch.setattr(Recorder, "__call__", sometimes)


def interrupt(monkeypatch, at):
    """Ctrl-C when the seed `at` is to be played."""
    play = Recorder.__call__

    def until(self, seed):
        if seed == at:
            raise KeyboardInterrupt
        return play(self, seed)

    monkeypatch.setattr(Recorder, "__call__", until)


def test_what_is_recorded(plain):
    assert plain.seeds.tolist() == [0, 1, 2, 3]
    assert plain.lengths.tolist() == [100] * 4  # not cut at success
    assert plain.meta["env"] == "metaworld/reach"
    assert all(steps > 0 for steps in plain.meta["success_steps"])
    env = make_env(plain.meta["env"], plain.meta["observation"], **plain.meta["options"])
    observation, _ = env.reset(seed=1)
    states, actions = plain.load("state")[100:200], plain.load("action")[100:200]
    for state, action in zip(states, actions, strict=True):
        assert np.array_equal(state, observation["state"])  # seen before the action
        observation = env.step(action)[0]


def test_processes_change_nothing(plain, tmp_path):
    two = collect(path=tmp_path / "demos", episodes=4, workers=2, **QUICK)
    assert content(two.path) == content(plain.path)
    assert not (tmp_path / "demos.partial").exists()


def test_interrupted_and_resumed_is_the_same(plain, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt(patch, at=2)
        with pytest.raises(KeyboardInterrupt):
            collect(path=tmp_path / "demos", episodes=4, workers=1, **QUICK)
    assert not (tmp_path / "demos").exists()
    kept = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "demos.partial").glob("*.npz")}
    assert len(kept) == 2
    played = []
    play = Recorder.__call__
    monkeypatch.setattr(Recorder, "__call__", lambda self, seed: played.append(seed) or play(self, seed))
    store = collect(path=tmp_path / "demos", episodes=4, workers=1, **QUICK)
    assert played == [2, 3]
    assert content(store.path) == content(plain.path)


def test_killed_and_resumed_is_the_same(plain, tmp_path):
    """kill -9 in the middle; the processes it started go too."""
    program = (
        "from mgp.data.collect import collect\n"
        "if __name__ == '__main__':\n"
        f"    collect({QUICK['env_name']!r}, {str(tmp_path / 'demos')!r}, 400, observation='state',\n"
        f"            options={QUICK['options']!r}, workers=2, progress=False)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(program)
    process = subprocess.Popen([sys.executable, script], start_new_session=True)
    partial = tmp_path / "demos.partial"
    deadline = time.monotonic() + 60
    while len(list(partial.glob("episode-*.npz"))) < 2 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 10
    while _alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(process.pid)
    assert not (tmp_path / "demos").exists()
    store = collect(path=tmp_path / "demos", episodes=4, workers=1, **QUICK)
    assert content(store.path) == content(plain.path)


def _alive(group: int) -> bool:
    """Whether the process group has a member that is not a zombie."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # gone meanwhile
            state, _, member = stat.read_text().rpartition(")")[2].split()[:3]
            if int(member) == group and state != "Z":
                return True
    return False


def test_repeating_plays_nothing_and_more_extends(plain, tmp_path, monkeypatch):
    path = tmp_path / "demos"
    collect(path=path, episodes=2, workers=1, **QUICK)
    played = []
    play = Recorder.__call__
    monkeypatch.setattr(Recorder, "__call__", lambda self, seed: played.append(seed) or play(self, seed))
    assert len(collect(path=path, episodes=2, workers=1, **QUICK)) == 2
    assert len(collect(path=path, episodes=1, workers=1, **QUICK)) == 2
    assert played == []
    store = collect(path=path, episodes=4, workers=1, **QUICK)
    assert played == [2, 3]
    assert content(store.path) == content(plain.path)


def test_only_successes_in_the_order_of_seeds(tmp_path, monkeypatch):
    failing(monkeypatch, 0, 2)
    path = tmp_path / "demos"
    assert collect(path=path, episodes=2, workers=1, **QUICK).seeds.tolist() == [1, 3]
    assert collect(path=path, episodes=3, workers=1, **QUICK).seeds.tolist() == [1, 3, 4]


def test_failures_are_not_played_again(tmp_path, monkeypatch):
    failing(monkeypatch, 0)
    with monkeypatch.context() as patch:
        interrupt(patch, at=1)
        with pytest.raises(KeyboardInterrupt):
            collect(path=tmp_path / "demos", episodes=1, workers=1, **QUICK)
    interrupt(monkeypatch, at=0)
    assert collect(path=tmp_path / "demos", episodes=1, workers=1, **QUICK).seeds.tolist() == [1]


def test_hopeless_expert_is_named(tmp_path):
    hopeless = {**QUICK, "options": {"horizon": 1}}
    with pytest.raises(DataError, match="succeeded in 0 of 25 episodes"):
        collect(path=tmp_path / "demos", episodes=1, workers=1, **hopeless)


@pytest.mark.parametrize("unfinished", [False, True])
def test_other_settings_are_refused(tmp_path, monkeypatch, unfinished):
    path = tmp_path / "demos"
    with monkeypatch.context() as patch:
        if unfinished:
            interrupt(patch, at=1)
        with contextlib.suppress(KeyboardInterrupt):
            collect(path=path, episodes=2, workers=1, **QUICK)
    for change, named in (
        ({"seed": 5}, "seed 0 .asked: 5"),
        ({"env_name": "metaworld/push"}, "metaworld/reach"),
        ({"options": {"horizon": 99}}, "horizon"),
        ({"observation": "cloud"}, "observation 'state'"),
    ):
        with pytest.raises(DataError, match=f"{named}.*--force"):
            collect(path=path, episodes=2, workers=1, **{**QUICK, **change})
    store = collect(path=path, episodes=1, workers=1, force=True, **{**QUICK, "seed": 5})
    assert store.seeds.tolist() == [5]


def test_force_keeps_the_old_until_the_new_is_there(plain, tmp_path, monkeypatch):
    path = tmp_path / "demos"
    collect(path=path, episodes=1, workers=1, **QUICK)
    interrupt(monkeypatch, at=5)
    with pytest.raises(KeyboardInterrupt):
        collect(path=path, episodes=1, workers=1, force=True, **{**QUICK, "seed": 5})
    assert EpisodeStore.open(path).seeds.tolist() == [0]


def test_clouds_are_recorded(tmp_path):
    store = collect(
        "metaworld/reach", tmp_path / "demos", 1, options={"points": 32, "horizon": 60}, workers=1, progress=False
    )
    assert store.load("cloud").shape == (60, 32, 3)
    assert store.load("state").shape == (60, 9)


@pytest.mark.parametrize("bad", [{"episodes": 0}, {"seed": -1}, {"workers": 0}])
def test_bad_numbers_are_refused(tmp_path, bad):
    with pytest.raises(ConfigError, match="must be >= 1"):
        collect(**{**QUICK, "path": tmp_path / "demos", "episodes": 1, **bad})


def test_what_a_recording_says_of_itself(plain):
    said = {key: plain.meta[key] for key in ("observation", "options", "horizon", "hold_action", "actions", "seed")}
    assert said == {
        "observation": "state",
        "options": {"horizon": 100},
        "horizon": 100,
        "hold_action": [0.0, 0.0, 0.0, None],  # the gripper's last command goes on
        "actions": "displacement",
        "seed": 0,
    }


def test_a_store_of_an_earlier_version_is_extended(plain, tmp_path):
    """Format 1 did not say what actions are, and not which commands go on."""
    path = tmp_path / "demos"
    old = {key: value for key, value in plain.meta.items() if key != "actions"}
    old |= {"hold_action": [0.0] * 4, "success_steps": plain.meta["success_steps"][:2]}
    write_format_1(path, {key: plain.load(key)[:200] for key in plain.keys}, [100, 200], [0, 1], old)
    store = collect(path=path, episodes=4, workers=1, **QUICK)
    assert content(store.path) == content(plain.path)


def test_recordings_of_ones_own_are_not_extended(tmp_path):
    path = tmp_path / "demos"
    EpisodeStore.write(path, [{"action": np.zeros((3, 4)), "state": np.zeros((3, 9))}], [0], {})
    with pytest.raises(DataError, match=r"made with env None \(asked: 'metaworld/reach'\)"):
        collect(path=path, episodes=2, workers=1, **QUICK)


def test_a_damaged_file_of_an_unfinished_collection_is_named(tmp_path, monkeypatch):
    path = tmp_path / "demos"
    with monkeypatch.context() as patch:
        interrupt(patch, at=1)
        with pytest.raises(KeyboardInterrupt):
            collect(path=path, episodes=2, workers=1, **QUICK)
    file = path.with_name("demos.partial") / "episode-0.npz"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"episode-0.npz cannot be read .* delete that file and call again"):
        collect(path=path, episodes=2, workers=1, **QUICK)
