"""`python -m benchmarks.speed`: who takes part, with which sizes; training; what is written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks import lerobot_peers, speed, speed_training, timing

from mgp.data.spec import DataSpec
from mgp.errors import DataError
from mgp.evaluation.idle import Others
from mgp.policies import policy_class
from small import demonstrations, tiny_of, untrained


def write_training(folder: Path, method: str, successes: list[float]) -> None:
    """A run whose tokenizer took 60 s for 200 steps, and its policy 30 s for every 100."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"method": method, "task": {"name": "metaworld/push"}}))
    lines = [f"tokenizer,{step},{0.3 * step:.1f},1" for step in range(20, 201, 20)]
    lines += [f"policy,{step},{60 + 0.3 * step:.1f},1" for step in range(20, 401, 20)]
    (folder / "metrics.csv").write_text("\n".join(["stage,step,seconds,loss", *lines]) + "\n")
    evals = [f"{100 * number},{success},10" for number, success in enumerate(successes, 1)]
    (folder / "evals.csv").write_text("\n".join(["step,success,episodes", *evals]) + "\n")


def test_minutes_to_a_success_are_read_from_a_run(tmp_path):
    write_training(tmp_path / "run", "mgp-short", [0.5, 0.8, 0.7])
    reached = speed_training.first_reaching(tmp_path / "run", 0.8)
    assert (reached.method, reached.task) == ("mgp-short", "metaworld/push")
    assert reached.steps == {"tokenizer": 200, "policy": 200}
    assert reached.minutes == 2.0
    assert not speed_training.first_reaching(tmp_path / "run", 0.9).steps
    with pytest.raises(DataError, match="no run with"):
        speed_training.first_reaching(tmp_path, 0.8)


def test_a_training_line_has_the_minutes_at_its_own_pace(tmp_path):
    for name, successes in (("one", [0.5, 0.8]), ("two", [0.1])):
        write_training(tmp_path / name, "mgp-short", successes)
    reached = [speed_training.first_reaching(tmp_path / name, 0.8) for name in ("one", "two")]
    found = speed_training.paces([tiny_of("mgp-short", "cloud")], demonstrations("cloud"), tmp_path / "none")
    for pace, milliseconds in zip(found, (30.0, 60.0), strict=True):
        pace.step()
        assert len(pace.times) == 1
        pace.times[:] = [milliseconds]
    tokenizer, policy = (speed_training.line_of(pace, found, reached, 0.8, Others(0.0)) for pace in found)
    assert (tokenizer["seconds_per_1000"], policy["seconds_per_1000"]) == ("30", "60")
    assert "runs" not in tokenizer
    assert (policy["runs"], policy["level_step"]) == ("one two", "200 never")
    assert policy["level_minutes"] == "0.3 never"  # 200 steps of 30 ms and 200 of 60
    assert policy["logged_minutes"] == "2.0 never"
    other = replace(reached[0], steps={"teacher": 5})
    with pytest.raises(DataError, match="has a stage 'teacher', the method mgp-short has tokenizer, policy"):
        speed_training.line_of(found[1], found, [other], 0.8, Others(0.0))


def test_released_policies_share_the_encoder_and_have_the_released_sizes():
    configs = {one.policy: speed.config_of(one.preset("released"), False) for one in speed.COMPETITORS}
    assert len({config.encoder for config in configs.values()}) == 1
    assert configs["DP3"].encoder.history == 4
    assert speed.config_of("paper-dp3", True).encoder.history == 2
    assert speed.config_of("dp3", False).encoder != configs["DP3"].encoder
    spec = DataSpec({"state": (9,), "cloud": (512, 3)}, 4, 200, "displacement", (0.0, 0.0, 0.0, None))
    with torch.device("meta"):  # shapes without memory
        dp3 = policy_class("diffusion")(configs["DP3"], spec)
    assert sum(weight.numel() for weight in dp3.parameters()) == pytest.approx(262e6, rel=0.005)


def test_large_weights_become_one_piece_of_memory(monkeypatch):
    monkeypatch.setattr(speed, "LARGE", 100)
    policies = [untrained(tiny_of(method, "cloud")) for method in ("dp3", "flow-policy")]
    kept: dict = {}
    for policy in policies:
        speed.share(policy, kept)
    one, other = (dict(policy.named_parameters()) for policy in policies)
    shared = [name for name in one if one[name].data_ptr() == other[name].data_ptr()]
    assert any(name.startswith("unet.") for name in shared)
    assert all(one[name].numel() >= 100 for name in shared)


def test_a_busy_machine_is_refused_at_once(monkeypatch, capsys):
    monkeypatch.setattr("mgp.evaluation.idle._others", lambda begin, end: 1.2)
    monkeypatch.setattr("mgp.evaluation.idle.time.sleep", lambda seconds: None)
    for module in (speed, speed_training):
        monkeypatch.setattr(module, "demonstrated", None)  # nothing is begun
    for words in ([], ["training"]):
        assert speed.main(words) == 2
        assert "other processes used 1.20 cores" in capsys.readouterr().err
    assert speed.main(["DP4"]) == 2
    assert "Did you mean 'DP'" in capsys.readouterr().err


def test_only_the_whole_table_goes_to_the_results(monkeypatch, tmp_path):
    written = []
    monkeypatch.setattr(speed, "check_idle", lambda allowed: None)
    monkeypatch.setattr(speed, "demonstrated", lambda episodes: None)
    monkeypatch.setattr(speed, "measure", lambda options, demonstrations: ([{"policy": "x"}], Others(0.0)))
    monkeypatch.setattr(speed, "write_speed", lambda path, *rest: written.append(path))
    for words in (["DP3"], ["--busy"], ["DP3", "--output", str(tmp_path / "a.csv")], []):
        assert speed.main(words) == 0
    assert written == [tmp_path / "a.csv", speed.OUTPUT]


def test_one_demonstration_is_recorded_as_the_table_says():
    found = timing.demonstrated(1)
    assert found.arrays["cloud"].shape[1:] == (512, 3)
    assert found.meta["env"] == "metaworld/assembly"


def test_a_small_run_times_every_policy_and_says_that_lerobot_is_not_there(monkeypatch, capsys):
    monkeypatch.setattr(speed, "config_of", lambda preset, own_frames: tiny_of(preset, "cloud"))
    monkeypatch.setattr(speed, "demonstrated", lambda episodes: demonstrations("cloud"))
    monkeypatch.setattr(lerobot_peers, "import_lerobot", no_lerobot)
    full = [replace(one, sampling={**one.sampling, "execution_horizon": 24}) for one in speed.COMPETITORS[3:4]]
    monkeypatch.setattr(speed, "COMPETITORS", (*speed.COMPETITORS[:3], *full, *speed.COMPETITORS[4:]))
    assert speed.main(["--busy", "--rounds", "1", "--seconds", "0.001"]) == 0
    said = capsys.readouterr()
    assert "LeRobot's policies are left out (no module named 'lerobot')" in said.err
    head, *lines = said.out.splitlines()
    assert len(lines) == 2 * sum(len(one.sizes) for one in speed.COMPETITORS), "with one thread and with two"
    assert "step_ratio" in head
    (dp3,) = [line for line in lines if line.split()[:3] == ["DP3", "released", "1"]]
    assert dp3.split()[-3:] == ["145.0", "6557.0", "48.3"], "the paper's"


def no_lerobot() -> None:
    raise ImportError("no module named 'lerobot'")


def test_a_small_run_times_training_and_reads_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(speed_training, "get_config", lambda method, task: tiny_of(method, "cloud"))
    monkeypatch.setattr(speed_training, "demonstrated", lambda episodes: demonstrations("cloud"))
    write_training(tmp_path / "run", "mgp-short", [0.5, 0.8, 0.7])
    assert speed.main(["training", str(tmp_path / "run"), "--busy", "--rounds", "1", "--steps", "2"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert "seconds_per_1000" in head
    stages = [("mgp-short", "tokenizer"), ("mgp-short", "policy"), ("dp3", "policy"), ("act", "policy")]
    assert [tuple(line.split()[:2]) for line in lines] == stages
    assert "metaworld/push" in lines[1]


def test_a_policy_of_lerobot_plans_behind_our_contract():
    try:
        found = list(lerobot_peers.peers(demonstrations("cloud"), tiny_of("paper-mgp-short", "cloud"), {"ACT"}))
    except ImportError as error:
        pytest.skip(f"LeRobot is not installed: {error}")
    ((entry, peer),) = found
    assert entry.sizes.startswith("LeRobot ")
    frames = {key: np.zeros((1, peer.frames, *shape), np.float32) for key, shape in peer.observation_shapes.items()}
    assert peer.plan(frames, peer.begin([0])).actions.shape == (1, 100, 3)
