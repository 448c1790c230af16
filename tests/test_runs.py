from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

import small
from mgp.config import EnvConfig
from mgp.errors import ConfigError
from mgp.presets import get_preset
from mgp.runs import (
    append_eval,
    demonstrations_path,
    for_task,
    method_name,
    pick_device,
    run_path,
    store_path,
)


def test_runs_and_demonstrations_have_telling_names():
    config = small.change(get_preset("metaworld-long"), {"seed": 2, "env.points": 512})
    assert run_path(config) == Path("runs/assembly-metaworld-long-seed2")
    moving = for_task(config, "metaworld-dynamic/push")
    assert run_path(moving) == Path("runs/metaworld-dynamic-push-metaworld-long-seed2"), "not that of metaworld/push"
    assert demonstrations_path(config.env) == Path("data/metaworld-assembly-cloud512.zarr")
    assert demonstrations_path(EnvConfig("metaworld/push", "state", seed=9)).name == "metaworld-push-state-seed9.zarr"
    assert store_path("metaworld/push", "rgb", 512, 0).name == "metaworld-push-rgb.zarr"


def test_demonstrations_of_other_points_or_seeds_are_other_stores():
    env = EnvConfig()
    others = [{"env.points": 64}, {"env.seed": 5}, {"env.name": "metaworld/push"}]
    names = {demonstrations_path(small.change(get_preset("metaworld-short"), other).env).name for other in others}
    assert len(names | {demonstrations_path(env).name}) == 4


def test_methods_are_named_as_the_paper_does():
    long = get_preset("metaworld-long")
    names = [method_name(small.change(long, {"sampling.variant": variant})) for variant in ("long", "full", "no-sm")]
    assert names == ["MGP-Long", "MGP-Full", "MGP-w/o-SM"]
    assert method_name(get_preset("metaworld-short")) == "MGP-Short"


def test_a_bare_task_keeps_the_family():
    config = get_preset("metaworld-short")
    assert for_task(config, None) == config
    assert for_task(config, "push").env.name == "metaworld/push"
    assert for_task(config, "other/push").env.name == "other/push"


def test_a_step_evaluated_again_replaces_its_row(tmp_path):
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
