from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch

import small
from mgp.config import TaskConfig
from mgp.errors import CheckpointError, ConfigError
from mgp.files import seal
from mgp.presets import get_config
from mgp.runs import Run, append_eval, load_policy, pick_device, read_evals, run_path, store_path
from mgp.training.loop import Trainer


def test_runs_and_demonstrations_have_telling_names():
    config = get_config("mgp-long", "assembly").changed({"seed": 2})
    assert run_path(config) == Path("runs/assembly-mgp-long-seed2")
    moving = get_config("mgp-long", "metaworld-dynamic/push")
    assert run_path(moving) == Path("runs/metaworld-dynamic-push-mgp-long-seed0"), "not that of metaworld/push"
    assert store_path(config.task) == Path("data/metaworld-assembly-cloud.zarr")
    assert store_path(TaskConfig("metaworld/push", "state", seed=9)).name == "metaworld-push-state-seed9.zarr"
    options = TaskConfig("metaworld/push", options={"points": 64, "cloud": "paper"})
    assert store_path(options).name == "metaworld-push-cloud-cloud=paper-points=64.zarr"


def test_demonstrations_of_other_options_or_seeds_are_other_stores():
    others = [{}, {"task.options": {"points": 64}}, {"task.seed": 5}, {"task.name": "metaworld/push"}]
    names = {store_path(get_config().changed(other).task).name for other in others}
    assert len(names) == 4


def test_methods_are_named_as_the_paper_does():
    long = small.policy(small.tiny("long"))
    names = [long.with_sampling(variant=variant).label for variant in ("long", "full", "no-sm")]
    assert names == ["MGP-Long", "MGP-Full", "MGP-w/o-SM"]
    assert small.policy(small.tiny("short")).label == "MGP-Short"
    assert small.untrained(small.tiny_of("bc")).label == "bc"


def test_a_run_knows_what_it_learned_from(tmp_path):
    config = small.tiny("long")
    Trainer(config, small.demonstrations(), tmp_path, data=Path("data/x.zarr"), quiet=True).train()
    run = Run.open(tmp_path)
    assert (run.config, run.data, run.demonstration_seeds) == (config, Path("data/x.zarr"), list(range(5)))
    assert run.spec == small.spec(config)
    assert run.trained_at == "", "not by `mgp train`"
    assert run.loader(variant="full")().label == load_policy(tmp_path, variant="full").label == "MGP-Full"


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="holds no checkpoint: name a folder that `mgp train` wrote"):
        Run.open(tmp_path)


def test_runs_of_before_policies_had_settings_of_their_own_are_refused(tmp_path):
    old = tmp_path / "checkpoints" / "1-policy-00000006"
    old.mkdir(parents=True)
    (old / "config.json").write_text(json.dumps({"preset": "metaworld-long", "policy": "long"}))
    seal(old, {"format": 1})
    for opening in (lambda: Run.open(tmp_path), lambda: load_policy(tmp_path), lambda: load_policy(old)):
        with pytest.raises(
            CheckpointError, match=r"format 1, this version reads 2, .* or train again \(mgp train --me"
        ):
            opening()


def test_a_step_evaluated_again_replaces_its_row(tmp_path):
    assert read_evals(tmp_path) == []
    for step, success in ((100, 0.1), (200, 0.5), (100, 0.3)):
        append_eval(tmp_path, {"step": step, "success": success, "episodes": 20})
    with open(tmp_path / "evals.csv", newline="") as file:
        rows = [(int(row["step"]), float(row["success"])) for row in csv.DictReader(file)]
    assert rows == [(100, 0.3), (200, 0.5)]


def test_devices():
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ConfigError, match="'gpu' is none: choose auto, cpu or cuda"):
        pick_device("gpu")
