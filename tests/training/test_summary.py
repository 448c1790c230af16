"""summary.json of a run says which training it is of."""

from __future__ import annotations

import shutil
import types

import small
from mgp.commands import train as command
from mgp.runs import Run


def test_a_summary_is_of_the_training_that_was_done_last(tmp_path, monkeypatch):
    """Asked again, a finished run keeps its commit; trained anew, it gets that of the code at the beginning."""
    commits = iter("abcd")
    monkeypatch.setattr(command, "commit", lambda: next(commits))
    robot = types.SimpleNamespace(hold_command=lambda: small.HOLD)
    monkeypatch.setattr(command, "make_env", lambda *_, **__: robot)
    data, run, found = small.store(tmp_path / "data.zarr"), tmp_path / "run", []
    for _ in range(3):
        command.train(small.tiny(), run, data)
        found.append(Run.open(run).trained_at)
        if len(found) == 2:
            shutil.rmtree(run / "checkpoints")
    assert found == ["a", "a", "c"]
    (run / "summary.json").unlink()
    command.train(small.tiny(), run, data)
    assert Run.open(run).trained_at == "d", "one that is lost is written again"
