"""`mgp eval --env`: a policy trained on the static task, run in the moving one."""

from __future__ import annotations

import csv
import json

import pytest

import small
from mgp.cli import main
from mgp.data.collect import collect
from mgp.training.loop import Trainer
from mgp.workflows.demonstrations import load_demonstrations

MOVING = "metaworld-dynamic/push"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zero-shot")
    collect("metaworld/push", folder / "data", 1, 0, "state", {"horizon": 100}, 1, progress=False)
    config = small.tiny(**{"task.name": "metaworld/push", "task.demonstrations": 1})
    Trainer(config, load_demonstrations(config.task, folder / "data"), folder / "run", quiet=True).train()
    return folder / "run"


def evaluated(run, *words: str) -> dict:
    before = set((run / "eval").glob("*.json"))
    main(["eval", str(run), "--episodes", "1", "--workers", "1", *words])
    (new,) = set((run / "eval").glob("*.json")) - before
    return {"file": new.name, **json.loads(new.read_text())}


def test_another_environment_is_named_in_the_result_and_keeps_its_own_file(run, tmp_path):
    static = evaluated(run)
    moving = evaluated(run, "--env", MOVING, "--csv", str(tmp_path / "rows.csv"))
    assert (static["task"], moving["task"]) == ("metaworld/push", MOVING)
    assert static["variant"].get("trained_on") is None
    assert moving["variant"]["trained_on"] == "metaworld/push"
    assert moving["options"] == static["options"] == {"horizon": 100}
    assert moving["file"] == "metaworld-dynamic-push-seed10000.json"
    with open(tmp_path / "rows.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["task"] == MOVING
    assert "trained_on=metaworld/push" in row["variant"]
    assert row["evaluation_seeds"] == "10000-10000"
    assert row["trained_at"] == "", "a training by hand has no summary"


def test_seeds_of_the_static_demonstrations_are_refused_in_the_moving_scene(run, capsys):
    with pytest.raises(SystemExit):
        main(["eval", str(run), "--env", MOVING, "--seed", "0", "--episodes", "1"])
    assert "were used for demonstrations" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["eval", str(run), "--env", "metaworld-dynamic/pusch", "--workers", "1"])
    assert "Did you mean 'push'" in capsys.readouterr().err


def test_patterns_of_missing_observations_by_flag(run, capsys):
    words = ["--missing", "0.5", "--missing-burst", "2", "--missing-from", "60"]
    result = evaluated(run, *words)
    assert result["missing"] == 0.5
    assert {**result["variant"], "missing_burst": 2, "missing_from": 60} == result["variant"]
    assert result["file"] == "missing=0.5-missing_burst=2-missing_from=60-seed10000.json"
    assert result["episodes"][0]["missing"] >= 10  # all from step 60 on: ten clips of four
    with pytest.raises(SystemExit):
        main(["eval", str(run), "--missing-burst", "2"])
    assert "give a probability" in capsys.readouterr().err
