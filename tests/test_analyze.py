"""`mgp analyze confidence` by the words a user types, on a tiny network in the real scene with the moving hoop."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

import small
from mgp.cli import main
from mgp.data.demonstrations import Demonstrations
from mgp.training.checkpoint import checkpoints
from mgp.training.loop import Trainer

MOVING = "metaworld-dynamic/basketball-midway"


def trained(folder, horizon: str):
    """As wide as Meta-World's state; what it learns does not matter."""
    random, steps = np.random.default_rng(0), 128
    arrays = {
        key: torch.from_numpy(random.normal(size=(steps, n))).float() for key, n in (("action", 4), ("state", 39))
    }
    meta = {"horizon": 64, "actions": "displacement", "hold_action": [0, 0, 0, None], "options": {"horizon": 64}}
    data = Demonstrations(arrays, torch.tensor([64, 128]), (0, 1), meta)
    task = {"task.name": "metaworld/basketball", "task.demonstrations": 2}
    Trainer(small.tiny(horizon, **task, **{"training.checkpoint_every": 6}), data, folder, quiet=True).train()
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("analyze") / "run", "long")


def test_the_study_is_printed_written_and_shown_in_the_report(run, tmp_path, capsys):
    words = ["analyze", "confidence", str(run), "--env", MOVING, "--episodes", "2", "--workers", "1"]
    main([*words, "--output", str(tmp_path / "page.html")])
    said = " ".join(capsys.readouterr().out.split())
    for part in (
        "seeds 40000 to 40001",
        "flips by action (> 0.05)",
        "60.6%",
        "15.1%",
        "on ATR's plans",
        "up to step 50",
        "moving - static",
    ):
        assert part in said
    path = run / "analysis" / "confidence-metaworld-dynamic-basketball-midway-seed40000.json"
    assert path.is_file()
    assert path.with_suffix(".csv").is_file()
    assert not path.with_suffix(".html").exists()
    assert "Heat-map of token confidence" in (tmp_path / "page.html").read_text()
    main(["report", str(run), "--output", str(tmp_path / "report.html")])
    assert f"Confidence study: {MOVING}" in (tmp_path / "report.html").read_text()


def test_calibration_is_printed_and_written(run, tmp_path, capsys):
    words = ["analyze", "calibration", str(run), "--env", MOVING, "--episodes", "1", "--workers", "1"]
    main([*words, "--output", str(tmp_path / "page.html")])
    said = " ".join(capsys.readouterr().out.split())
    assert all(part in said for part in ("leave-out", "now wrong by more than 1 cm", "60.6%", "AUROC"))
    path = run / "analysis" / "calibration-metaworld-dynamic-basketball-midway-seed40000.json"
    assert path.is_file()
    assert path.with_suffix(".csv").is_file()
    assert "Scores of tokens when the scene changes" in (tmp_path / "page.html").read_text()
    with pytest.raises(SystemExit):
        main(["analyze", "calibration", str(run)])
    assert "no scene that changes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--seed", "0"], "evaluation seeds 0, 1 were used for demonstrations"),
        (["--env", "metaworld-dynamic/basketbal"], "Did you mean 'basketball'"),
        (["--episodes", "0"], "ask for at least one episode"),
    ],
)
def test_mistakes_are_named_before_anything_is_rolled_out(run, words, expected, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["analyze", "confidence", str(run), *words])
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err


def test_short_and_an_untrained_policy_are_refused(run, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["analyze", "confidence", str(trained(tmp_path / "short", "short"))])
    assert "mgp train --method mgp-long --task metaworld/basketball" in capsys.readouterr().err
    shutil.copytree(run, tmp_path / "cut", ignore=shutil.ignore_patterns("1-policy-*"))
    assert checkpoints(tmp_path / "cut"), "the tokenizer's is left"
    with pytest.raises(SystemExit):
        main(["analyze", "confidence", str(tmp_path / "cut")])
    assert "interrupted before its policy was trained" in capsys.readouterr().err
