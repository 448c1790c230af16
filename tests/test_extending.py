"""What docs/architecture.md tells a contributor works as it stands: a policy, an environment and an encoder."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

import small
from mgp.cli import main
from mgp.data.demonstrations import Demonstrations
from mgp.envs import FAMILIES
from mgp.model.encoders import ENCODERS
from mgp.policies import POLICIES
from mgp.runs import load_policy
from mgp.training.loop import Trainer

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


def module(heading: str, name: str, monkeypatch) -> str:
    """The code under a heading of the page, as a module of that name."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    made = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, made)
    exec(compile(code, str(PAGE), "exec"), made.__dict__)
    return name


def test_a_policy_is_one_file_and_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(POLICIES, "mine", module("A new policy", "mine_policy", monkeypatch))
    config = small.tiny_of("mine", "cloud", **{"policy.chunk": 6})
    Trainer(config, small.demonstrations("cloud"), tmp_path / "run", quiet=True).train()
    policy = load_policy(tmp_path / "run")
    assert policy.plan(small.frames(config, 2, 2), policy.begin([0, 1])).actions.shape == (2, 6, small.ACTION)
    assert policy.label == "mine"


def test_an_environment_is_one_file_and_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(FAMILIES, "line", module("A new environment", "line_env", monkeypatch))
    monkeypatch.chdir(tmp_path)
    main(["collect", "line/reach", "--episodes", "6", "--observation", "state", "--workers", "1"])
    words = ["--method", "bc", "--task", "line/reach", "--task.observation", "state", "--task.demonstrations", "6"]
    main(["train", *words, "--training.steps", "150", "--training.eval-every", "0", "--output", "run"])
    capsys.readouterr()
    main(["eval", "run", "--episodes", "5", "--workers", "1"])
    said = capsys.readouterr().out
    assert "bc on line/reach (state)" in said
    assert float(re.search(r"success (\S+)", said)[1]) >= 0.8


def test_an_encoder_is_one_file_and_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(ENCODERS, "force", module("A new sensor or encoder", "force_encoder", monkeypatch))
    data = small.demonstrations()
    arrays = {**data.arrays, "force_wrist": torch.randn(len(data.arrays["action"]), 6)}
    config = small.tiny_of("bc")
    Trainer(config, Demonstrations(arrays, data.ends, data.seeds, data.meta), tmp_path / "run", quiet=True).train()
    policy = load_policy(tmp_path / "run")
    frame = {"state": np.zeros(7, np.float32), "force_wrist": np.zeros(6, np.float32)}
    assert policy.act(frame).shape == (small.ACTION,)
    with pytest.raises(Exception, match="no 'force_wrist'"):
        policy.act({"state": frame["state"]})
