"""`mgp eval-tokenizer`: replay of what a tokenizer gives back."""

from __future__ import annotations

import numpy as np
import pytest
from toy_robot import ToyEnv

import small
from mgp.cli import main
from mgp.errors import CheckpointError, SimulationError
from mgp.evaluation.tokenizer import _replay
from mgp.policies.files import load_checkpoint, save_policy
from mgp.report.run_folder import read_run
from mgp.runs import Run, load_policy
from mgp.training.loop import Trainer
from mgp.workflows import tokenizer as workflow


class StrictEnv(ToyEnv):
    """Over at success or beyond the edge, and not to be stepped from there on."""

    over = False

    def reset(self, *, seed=None, options=None):
        self.over = False
        return super().reset(seed=seed, options=options)

    def advance(self, action):
        if self.over:
            raise SimulationError("stepped past its end")
        reward, _, truncated, info = super().advance(action)
        terminated = info["success"] or self.position < -0.3
        self.over = terminated or truncated
        return reward, terminated, truncated, info


@pytest.mark.parametrize(("towards", "expected"), [(1, True), (-1, False), (0, False)])
def test_a_replay_stops_where_the_episode_does(towards, expected):
    env = StrictEnv(horizon=25)
    assert _replay(env, 0, np.full((60, 1), towards, np.float32)) is expected
    assert env.over
    assert _replay(env, 0, np.zeros((3, 1), np.float32)) is False, "too few actions are no success either"


@pytest.fixture
def tokenizer_only(tmp_path):
    """A run that was interrupted before its second stage."""
    config = small.tiny()
    trainer = Trainer(config, small.demonstrations(), tmp_path / "run", quiet=True)
    update = trainer._update

    def stop(number, *rest):
        if number == 1:
            raise RuntimeError
        return update(number, *rest)

    trainer._update = stop
    with pytest.raises(RuntimeError):
        trainer.train()
    return tmp_path / "run"


def test_a_run_with_its_tokenizer_only_can_be_measured_and_reported(tokenizer_only, tmp_path, monkeypatch, capsys):
    data = small.store(tmp_path / "data.zarr", env="metaworld/reach")
    monkeypatch.setattr(workflow, "make_env", lambda name, observation, **options: StrictEnv(**options))
    main(["eval-tokenizer", str(tokenizer_only), "--data", str(data)])
    assert "codes_in_use" in capsys.readouterr().out
    assert (tokenizer_only / "eval" / "tokenizer.json").is_file()
    assert not any("tokenizer.json" in sentence for sentence in read_run(tokenizer_only).missing)


def test_a_checkpoint_of_the_tokenizer_is_no_policy_but_a_saved_policy_is(tokenizer_only, tmp_path):
    checkpoint = Run.open(tokenizer_only).checkpoint
    for folder in (tokenizer_only, checkpoint):
        with pytest.raises(CheckpointError, match="interrupted before its policy was trained"):
            load_policy(folder)
    save_policy(load_checkpoint(checkpoint), tmp_path / "saved")
    assert load_policy(tmp_path / "saved").config == small.tiny()


def test_a_policy_without_a_tokenizer_is_named(tmp_path, capsys):
    Trainer(small.tiny_of("bc"), small.demonstrations(), tmp_path / "run", quiet=True).train()
    with pytest.raises(SystemExit):
        main(["eval-tokenizer", str(tmp_path / "run")])
    assert "is a run of bc, which has no tokenizer: name one of MGP" in capsys.readouterr().err
