"""The robot loops that README.md and docs/deploy.md show, as they stand."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import small
from mgp.policies.files import save_policy
from mgp.report import write_report

ROOT = Path(__file__).parents[2]


class Bench:
    """An arm and a camera that work."""

    def __init__(self):
        self.sent: list[np.ndarray] = []
        self.stops = 0

    def newest(self):
        return {"state": np.full(7, 0.1, np.float32)}, time.monotonic()

    def observe(self):
        return self.newest()[0]

    def send(self, action):
        self.sent.append(action)

    command = send

    def stop(self):
        self.stops += 1

    hold = stop


@pytest.mark.parametrize(("page", "heading"), [("README.md", "### On a robot"), ("docs/deploy.md", "## A robot loop")])
def test_the_loop_runs_as_it_is_shown(page, heading, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_policy(small.policy(small.tiny("long")), tmp_path / "runs" / "mine")
    section = (ROOT / page).read_text().split(f"{heading}\n")[1]
    code = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    assert code.count("seconds=10") == 1
    bench = Bench()
    exec(code.replace("seconds=10", "seconds=1"), {"robot": bench, "camera": bench, "driver": bench})
    assert len(bench.sent) + bench.stops >= 20
    assert len(bench.sent) > 5
    assert all(action.shape == (small.ACTION,) and action.dtype == np.float32 for action in bench.sent)
    report = write_report([tmp_path / "runs" / "mine"], tmp_path / "report.html").read_text()
    assert "mine/first: MGP-Long, frozen, 20 Hz" in report


def test_the_names_of_the_room_are_there():
    import mgp.runtime as room

    assert SimpleNamespace(**{name: getattr(room, name) for name in dir(room)}).Controller is room.Controller
    with pytest.raises(AttributeError, match="no attribute 'Controler'"):
        _ = room.Controler
