"""summary.json of a run says which training it is of."""

from __future__ import annotations

import shutil

import small
from mgp.runs import Run
from mgp.workflows import train as workflow


def test_a_summary_is_of_the_training_that_was_done_last(tmp_path, monkeypatch):
    """Asked again, a finished run keeps its commit; trained anew, it gets that of the code at the beginning."""
    commits = iter("abcd")
    monkeypatch.setattr(workflow, "commit", lambda: next(commits))
    config = small.tiny(**{"task.name": "mine/waves"})
    data, run, found = small.store(tmp_path / "data.zarr"), tmp_path / "run", []
    for _ in range(3):
        workflow.train(config, run, data)
        found.append(Run.open(run).trained_at)
        if len(found) == 2:
            shutil.rmtree(run / "checkpoints")
    assert found == ["a", "a", "c"]
    (run / "summary.json").unlink()
    workflow.train(config, run, data)
    assert Run.open(run).trained_at == "d", "one that is lost is written again"
