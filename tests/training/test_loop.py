from __future__ import annotations

import csv
import types
from pathlib import Path

import child
import pytest
import torch

import small
from mgp.data.demonstrations import keyed_generator
from mgp.training import loop
from mgp.training.checkpoint import Progress, checkpoints, folder_of, newest
from mgp.training.interrupt import hold_interrupts
from mgp.training.log import MetricsLog


class Clock:
    """Time that passes in training steps only, half a second each."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(loop, "time", types.SimpleNamespace(monotonic=lambda: self.now))

    def drive(self, trainer, stop: int | None = None):
        update = trainer._update

        def timed(number, *rest):
            out = update(number, *rest)
            self.now += 0.5
            if stop is not None and number == 1 and trainer.progress.step + 1 == stop:
                raise KeyboardInterrupt
            return out

        trainer._update = timed
        return trainer


def test_a_budget_in_minutes_sets_the_number_of_policy_steps(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)
    trainer = clock.drive(child.trainer(small.tiny(), tmp_path, minutes=1.0))
    trainer.train()
    assert trainer.progress.totals == {"tokenizer": 6, "policy": 114}  # 60 s less 3 s, at 0.5 s a step
    assert trainer.progress.step == 114
    assert trainer.progress.seconds == pytest.approx(60)


def test_a_budget_holds_for_a_run_that_was_interrupted_before_it_was_fitted(tmp_path, monkeypatch):
    clock, config = Clock(monkeypatch), small.tiny(**{"training.checkpoint_every": 5})
    with pytest.raises(KeyboardInterrupt):
        clock.drive(child.trainer(config, tmp_path, minutes=1.0), stop=12).train()
    clock.now += 1000  # nobody trains in between
    resumed = clock.drive(child.trainer(config, tmp_path, minutes=1.0))
    resumed.train()
    assert resumed.progress.seconds == pytest.approx(60, abs=1)
    again = clock.drive(child.trainer(config, tmp_path, minutes=1.0))
    again.train()
    assert again.progress.totals == resumed.progress.totals


def test_evaluations_do_not_count_as_training_time(tmp_path, monkeypatch):
    clock = Clock(monkeypatch)

    def evaluate(path: Path, step: int) -> None:
        clock.now += 500

    config = small.tiny(**{"training.eval_every": 2})
    trainer = clock.drive(child.trainer(config, tmp_path, evaluate=evaluate))
    trainer.train()
    assert trainer.progress.seconds == pytest.approx(6)


def rows(run: Path) -> list[tuple[str, int]]:
    with open(run / "metrics.csv", newline="") as file:
        return [(row["stage"], int(row["step"])) for row in csv.DictReader(file)]


def test_the_curves_of_a_resumed_run_have_each_step_once(tmp_path):
    config = small.tiny(**{"policy.tokenizer.steps": 25, "training.steps": 45, "training.checkpoint_every": 30})
    trainer = child.trainer(config, tmp_path)
    update = trainer._update

    def stop(number, *rest):
        if number == 1 and trainer.progress.step == 42:
            raise RuntimeError
        return update(number, *rest)

    trainer._update = stop
    with pytest.raises(RuntimeError):
        trainer.train()
    expected = [("tokenizer", 20), ("tokenizer", 25), ("policy", 20), ("policy", 40)]
    assert rows(tmp_path) == expected
    child.train(config, tmp_path)
    assert rows(tmp_path) == [*expected, ("policy", 45)]
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_a_row_that_was_cut_off_in_writing_is_dropped(tmp_path):
    log = MetricsLog(tmp_path, "policy", 0)
    log.write(20, 1.0, {"loss": 0.5})
    log.close()
    with open(tmp_path / "metrics.csv", "a") as file:
        file.write("policy")
    MetricsLog(tmp_path, "policy", 30).close()
    assert rows(tmp_path) == [("policy", 20)]


def test_training_lowers_the_loss(tmp_path):
    steps = {"policy.tokenizer.steps": 100, "policy.tokenizer.reset_after": 20, "training.steps": 150}
    config = small.tiny("short", **steps, **{"training.learning_rate": 1e-2, "training.batch": 32})
    child.train(config, tmp_path)
    with open(tmp_path / "metrics.csv", newline="") as file:
        loss = [float(row["loss"]) for row in csv.DictReader(file) if row["stage"] == "policy"]
    assert loss[-1] < 0.75 * loss[0]


def test_the_learning_rate_warms_up_and_falls_to_nothing(tmp_path):
    config = small.tiny(**{"training.steps": 20, "training.warmup": 5, "training.learning_rate": 0.01})
    trainer, rates = child.trainer(config, tmp_path), []
    update = trainer._update

    def watched(number, stage, source, parameters, optimizer, total):
        out = update(number, stage, source, parameters, optimizer, total)
        if number == 1:
            rates.append(optimizer.param_groups[0]["lr"])
        return out

    trainer._update = watched
    trainer.train()
    assert rates[0] == pytest.approx(0.01 / 5)
    assert max(rates) == rates[4]
    assert rates[5:] == sorted(rates[5:], reverse=True)
    assert rates[-1] < 0.01 * max(rates)


def test_checkpoints_are_in_the_order_of_training():
    names = [folder_of(Path(), Progress(stage, step), "x").name for stage, step in ((0, 2), (0, 10), (1, 0), (1, 9))]
    assert names == sorted(names)


def test_other_folders_are_no_checkpoints(tmp_path):
    assert newest(tmp_path) is None
    for name in (".0-tokenizer-00000003.77.tmp", "notes", "0-tokenizer-3"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert checkpoints(tmp_path) == []
    assert newest(tmp_path) is None


def test_what_a_killed_process_left_is_cleared_away(tmp_path):
    stale = tmp_path / "checkpoints" / ".0-tokenizer-00000006.99999.tmp"
    stale.mkdir(parents=True)
    (stale / "policy.safetensors").write_bytes(b"half")
    child.train(small.tiny(), tmp_path)
    assert not stale.exists()


def test_interrupts_wait_for_the_end_of_the_block():
    import signal

    done = []
    with pytest.raises(KeyboardInterrupt), hold_interrupts():
        done += [signal.raise_signal(signal.SIGINT), "the next"]
    assert done == [None, "the next"]
    with pytest.raises(ValueError, match="its own"), hold_interrupts():
        raise ValueError("its own")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_global_generator_is_left_alone(tmp_path):
    trainer = child.trainer(small.tiny(), tmp_path)
    before = torch.random.get_rng_state()
    trainer.train()
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("horizon", ["short", "long"])
def test_tokens_of_warped_actions_are_those_of_full_precision(horizon, tmp_path):
    warped = {"augmentation.rotation": 10.0, "training.precision": "bf16", "policy.masking.perturb": 0.0}
    trainer = child.trainer(small.tiny(horizon, "cloud", **warped), tmp_path)
    drawn, halved, loss = [], [], trainer.policy.loss

    def watched(stage, batch, generator):
        halved.append(torch.is_autocast_enabled("cpu"))
        drawn.append((stage, batch))
        return loss(stage, batch, generator)

    trainer.policy.loss = watched
    trainer.train()
    assert halved == [False] * 6 + [True] * 6
    stage, batch = drawn[-1]
    source = trainer.policy.source(stage, trainer.demonstrations)
    again = source.draw(stage.batch, keyed_generator(trainer.config.seed, 1, 5, 0))
    assert torch.equal(batch.extra["target"], again.extra["target"])
    assert torch.equal(batch.actions, again.actions)
    assert torch.equal(batch.looks.frames["cloud"], again.looks.frames["cloud"])


def test_a_figure_that_comes_later_adds_a_column(tmp_path):
    """Each policy logs what it likes, and a later stage logs other things than the one before."""
    log = MetricsLog(tmp_path, "tokenizer", 0)
    log.write(20, 1.0, {"loss": 0.5, "codes": 9.0})
    log.close()
    log = MetricsLog(tmp_path, "policy", 0)
    log.write(20, 2.0, {"loss": 0.4})
    log.write(40, 3.0, {"loss": 0.3, "accuracy": 0.25})
    log.close()
    with open(tmp_path / "metrics.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == ["stage", "step", "seconds", "loss", "codes", "accuracy"]
    assert [row["loss"] for row in found] == ["0.5", "0.4", "0.3"]
    assert [row["codes"] for row in found] == ["9", "", ""]
    assert [row["accuracy"] for row in found] == ["", "", "0.25"]


def test_the_last_stage_alone_is_evaluated_and_fitted_to_the_budget(tmp_path, monkeypatch):
    """A policy of one stage has no other."""
    clock, steps = Clock(monkeypatch), []
    config = small.tiny_of("bc", **{"training.eval_every": 50})
    trainer = child.trainer(config, tmp_path, minutes=1.0, evaluate=lambda path, step: steps.append((path.name, step)))
    clock.drive(trainer).train()
    assert trainer.progress.totals == {"policy": 120}
    assert steps == [("0-policy-00000050", 50), ("0-policy-00000100", 100), ("0-policy-00000120", 120)]
