from __future__ import annotations

import os
import signal
from concurrent.futures.process import BrokenProcessPool

import pytest

from mgp.processes import cores, pool


def place(_: int) -> tuple[int, str, bool]:
    return os.getpid(), os.environ["OMP_NUM_THREADS"], signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def set_word(word: str) -> None:
    os.environ["WORD"] = word


def get_word() -> str:
    return os.environ["WORD"]


def test_workers_have_one_thread_each_and_leave_ctrl_c_to_the_parent(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with pool(2, set_word, ("there",)) as executor:
        places = list(executor.map(place, range(4)))
        assert executor.submit(get_word).result() == "there"
    assert {threads for _, threads, _ in places} == {"1"}
    assert all(ignored and process != os.getpid() for process, _, ignored in places)
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in os.environ


def test_a_worker_that_dies_is_reported():
    with pool(1) as executor, pytest.raises(BrokenProcessPool):
        executor.submit(os._exit, 1).result()


def test_cores_are_those_this_process_may_use():
    assert 1 <= cores() <= (os.cpu_count() or 1)
