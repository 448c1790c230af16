from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from mgp.errors import CheckpointError
from mgp.files import lock, new_folder, seal, unseal, write_atomic


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "file.json"
    write_atomic(path, b"old")
    assert path.read_bytes() == b"old"

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="disk full"):
            write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.json"]


def test_a_folder_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "a" / "folder"
    with new_folder(path) as temporary:
        (temporary / "one").write_text("1")
        assert not path.exists()
    assert (path / "one").read_text() == "1"
    with pytest.raises(ZeroDivisionError), new_folder(path) as temporary:
        (temporary / "one").write_text(f"{1 / 0}")
    assert (path / "one").read_text() == "1", "the old one stays if writing fails"
    with new_folder(path) as temporary:
        (temporary / "two").write_text("2")
    assert [entry.name for entry in path.iterdir()] == ["two"]
    assert [entry.name for entry in path.parent.iterdir()] == ["folder"]


def test_files_reach_the_disk_before_the_folder_gets_its_name(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: events.append("fsync") or fsync(handle))
    monkeypatch.setattr(os, "replace", lambda a, b: events.append("replace") or replace(a, b))
    with new_folder(tmp_path / "folder") as temporary:
        (temporary / "one").write_text("1")
        (temporary / "two").write_text("2")
    assert events == ["fsync", "fsync", "fsync", "replace", "fsync"]  # both files, their folder, the name, its folder


def test_one_at_a_time_and_a_lock_dies_with_its_process(tmp_path):
    """Another process holds the lock until it is killed -9."""
    program = (
        "import sys, time; from pathlib import Path; from mgp.files import lock\n"
        "with lock(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    path = tmp_path / "deep" / "thing"
    with subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        entered = []

        def enter():
            with lock(path):
                entered.append(time.monotonic())

        waiting = threading.Thread(target=enter)
        waiting.start()
        time.sleep(0.2)
        assert not entered
        holder.send_signal(signal.SIGKILL)
        waiting.join(10)
        assert entered
    assert [entry.name for entry in path.parent.iterdir()] == [".thing.lock"]


@pytest.fixture
def sealed(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(range(100)))
    (tmp_path / "config").write_text("{}")
    seal(tmp_path, {"format": 3, "hold": [0.5, None], "note": "ü"})
    return tmp_path


def test_a_sealed_folder_gives_back_what_it_was_told(sealed):
    meta = unseal(sealed, 3)
    assert (meta["hold"], meta["note"]) == ([0.5, None], "ü")
    assert set(meta["sha256"]) == {"weights", "config"}


@pytest.mark.parametrize("file", ["weights", "config"])
def test_damage_to_a_file_is_seen(sealed, file):
    (sealed / file).write_bytes((sealed / file).read_bytes() + b"x")
    with pytest.raises(CheckpointError, match=f"{file} is corrupted"):
        unseal(sealed, 3)
    other = {"weights": "config", "config": "weights"}[file]
    unseal(sealed, 3, only=(other,))  # not asked for, not looked at
    (sealed / file).unlink()
    with pytest.raises(CheckpointError, match=f"{file} is missing"):
        unseal(sealed, 3)


def test_damage_to_the_description_is_seen(sealed):
    meta = json.loads((sealed / "meta.json").read_text())
    meta["hold"] = [0.4, None]
    (sealed / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(CheckpointError, match=r"meta\.json is damaged"):
        unseal(sealed, 3)
    for content in (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"format": 3}'):
        (sealed / "meta.json").write_bytes(content)
        with pytest.raises(CheckpointError):
            unseal(sealed, 3)


def test_another_format_is_refused_with_both_numbers(sealed):
    with pytest.raises(CheckpointError, match="has format 3, this version reads 4"):
        unseal(sealed, 4)
