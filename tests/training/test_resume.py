"""An interrupted run, however it ended, goes on to the same bits as one that was left alone."""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
import signal
import socket
import time
from pathlib import Path

import child
import pytest
import torch
from safetensors.torch import load_file

import small
from mgp.errors import CheckpointError, ConfigError
from mgp.policies.config import RunConfig
from mgp.policies.files import load_checkpoint
from mgp.runs import Run, load_policy
from mgp.tokenizer.codebook import Codebook
from mgp.training.checkpoint import checkpoints, newest

# of a save, and the how manieth time that a process comes there it dies
POINTS = {
    "half a file": 3, "before the description": 3, "before the rename": 3, "after the rename": 3,
    "before removing the old": 2,
}  # fmt: skip


def tensors(run: Path) -> dict[str, torch.Tensor]:
    """Everything the newest checkpoint holds: weights, averages, optimizer, codebook, and the acting policy."""
    path, _ = newest(run)
    out = load_file(path / "training.safetensors")
    return out | {f"policy.{name}": tensor for name, tensor in load_file(path / "policy.safetensors").items()}


def assert_same(one: Path, other: Path) -> None:
    assert newest(one)[0].name == newest(other)[0].name
    a, b = tensors(one), tensors(other)
    assert a.keys() == b.keys()
    for prefix in ("model.", "average.", "optimizer.", "policy."):
        assert any(name.startswith(prefix) for name in a), prefix
    different = [name for name in a if not torch.equal(a[name], b[name])]
    assert not different


@pytest.fixture(scope="module")
def server():
    """Processes that start in milliseconds: torch and mgp are imported once, in a server that forks them."""
    context = multiprocessing.get_context("forkserver")
    # torch imports _dynamo at the first step of an optimizer
    context.set_forkserver_preload(["pytest", "child", "torch.utils.tensorboard", "torch._dynamo"])
    return context


class Stop(Exception):
    pass


def stop_after(trainer, stage: str, step: int) -> None:
    """Break off at the end of a step, with the checkpoint of some step before."""
    update = trainer._update

    def stopping(number, running, *rest):
        out = update(number, running, *rest)
        if running.name == stage and trainer.progress.step + 1 == step:
            raise Stop
        return out

    trainer._update = stopping


def eventful(method: str, observation: str, every: int) -> RunConfig:
    """A tiny run in which everything random is drawn: noise, subsets of points, turned demonstrations."""
    changes = {"augmentation.cloud_noise": 0.01, "augmentation.state_noise": 0.1, "training.auxiliary": 0.5}
    if observation == "cloud":
        changes |= {"augmentation.rotation": 20.0, "augmentation.stretch": 0.1}
    return small.tiny_of(method, observation, **changes, **{"training.steps": 10, "training.checkpoint_every": every})


def stop(method: str, observation: str, run: Path, whole: Path) -> None:
    """In each stage a step after its last checkpoint, and in the last one before its first checkpoint, too."""
    config = eventful(method, observation, 4)
    stages = [stage.name for stage in child.trainer(config, run).policy.stages()]
    for stage, step in [*((name, 5) for name in stages[:-1]), (stages[-1], 1), (stages[-1], 5)]:
        trainer = child.trainer(config, run)
        stop_after(trainer, stage, step)
        with pytest.raises(Stop):
            trainer.train()
        torch.rand(3)  # the state of the process does not count
    child.train(config, run)
    assert_same(whole, run)


def kill(method: str, observation: str, run: Path, whole: Path, server) -> None:
    """At every point of a save; each process goes on where the one before it died, through all stages."""
    config = eventful(method, observation, 1)
    process = server.Process(target=child.die_at_every_point, args=(config, run, POINTS))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert newest(run)[1]["acts"], "the last stage was reached"
    child.train(config, run)
    assert_same(whole, run)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The run of a method that was left alone, trained once."""
    runs: dict[tuple[str, str], Path] = {}

    def run(method: str, observation: str) -> Path:
        if (method, observation) not in runs:
            runs[method, observation] = tmp_path_factory.mktemp("whole")
            child.train(eventful(method, observation, 1000), runs[method, observation])
        return runs[method, observation]

    return run


# a cloud comes with a state; alone it is tried with one stage and with two
TWINS = ("simple-dp3", "act-20")  # other settings of a policy that is in METHODS
SEEING = [*((method, "cloud") for method in (*small.METHODS, *TWINS)), ("bc", "state"), ("mgp-long", "state")]


@pytest.mark.parametrize(
    ("method", "observation"), [pytest.param(*one, marks=pytest.mark.xdist_group(one[0])) for one in SEEING]
)
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_resuming_is_bit_equal(end, method, observation, undisturbed, server, tmp_path):
    """For every method there is, whatever its stages."""
    whole = undisturbed(method, observation)
    if end == "stopped":
        stop(method, observation, tmp_path, whole)
    else:
        kill(method, observation, tmp_path, whole, server)


def test_a_finished_run_is_left_as_it_is(tmp_path):
    config = small.tiny()
    child.train(config, tmp_path)
    before = tensors(tmp_path)
    trainer = child.trainer(config, tmp_path)
    assert trainer.train() == newest(tmp_path)[0]
    after = tensors(tmp_path)
    assert all(torch.equal(before[name], after[name]) for name in before)


def press_ctrl_c_in(owner: type, method: str, call: int, monkeypatch) -> None:
    """Ctrl-C right after the n-th call of a method: inside a training step, when half of the state has changed."""
    original, calls = getattr(owner, method), 0

    def pressed(*args, **options):
        nonlocal calls
        out = original(*args, **options)
        calls += 1
        if calls == call:
            signal.raise_signal(signal.SIGINT)
        return out

    monkeypatch.setattr(owner, method, pressed)


@pytest.mark.parametrize(
    ("owner", "method", "call", "saved"),
    [
        (Codebook, "update", 3, "0-tokenizer-00000003"),
        (torch.optim.AdamW, "step", 2, "0-tokenizer-00000002"),
        (torch.optim.AdamW, "step", 8, "1-policy-00000002"),
    ],
)
def test_ctrl_c_in_the_middle_of_a_step_saves_a_whole_one(owner, method, call, saved, tmp_path, monkeypatch):
    config = small.tiny("long")
    child.train(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        press_ctrl_c_in(owner, method, call, patch)
        with pytest.raises(KeyboardInterrupt):
            child.train(config, tmp_path / "broken")
    assert newest(tmp_path / "broken")[0].name == saved
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    child.train(config, tmp_path / "broken")
    assert_same(tmp_path / "whole", tmp_path / "broken")


def test_ctrl_c_in_an_evaluation_or_a_save_loses_nothing(tmp_path, monkeypatch):
    config = small.tiny("short", **{"training.eval_every": 3})
    whole = child.trainer(config, tmp_path / "whole")
    steps = []
    whole.evaluate = lambda path, step: steps.append((path.name, step))
    whole.train()
    assert steps == [("1-policy-00000003", 3), ("1-policy-00000006", 6)]

    def interrupt(path, step):
        raise KeyboardInterrupt

    broken = child.trainer(config, tmp_path / "broken", evaluate=interrupt)
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    assert newest(tmp_path / "broken")[0].name == "1-policy-00000003"

    import mgp.training.checkpoint as module

    with monkeypatch.context() as patch:
        press_ctrl_c_in(module, "save_file", 1, patch)
        with pytest.raises(KeyboardInterrupt):
            child.train(config, tmp_path / "broken")
    assert newest(tmp_path / "broken")[0].name == "1-policy-00000006", "the save was begun anew"
    assert not [path for path in (tmp_path / "broken" / "checkpoints").iterdir() if path.name.startswith(".")]
    child.train(config, tmp_path / "broken")
    assert_same(tmp_path / "whole", tmp_path / "broken")


def test_kill_9_at_random_instants(server, tmp_path):
    steps = {"policy.tokenizer.steps": 12, "training.steps": 12, "training.checkpoint_every": 1}
    config = small.tiny("short", **steps)
    child.train(config, tmp_path / "whole")
    run, chance, killed = tmp_path / "killed", random.Random(0), 0
    for _ in range(6):
        process = server.Process(target=child.train_with_slow_saves, args=(config, run, 0.05))
        before = {path.name for path in checkpoints(run)}
        process.start()
        deadline = time.monotonic() + 60
        while process.is_alive() and {path.name for path in checkpoints(run)} == before:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 0.2))
        process.kill()
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        assert newest(run) is not None
    assert killed >= 4
    child.train(config, run)
    assert_same(tmp_path / "whole", run)


def damage(file: Path, how: str) -> None:
    content = file.read_bytes()
    if how == "remove":
        file.unlink()
    elif how == "truncate":
        file.write_bytes(content[: len(content) * 2 // 3])
    elif how == "empty":
        file.write_bytes(b"")
    else:
        place = len(content) - 3
        file.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[RunConfig, Path]:
    config = small.tiny("long", **{"training.checkpoint_every": 3})
    run = tmp_path_factory.mktemp("runs") / "trained"
    child.train(config, run)
    return config, run


@pytest.mark.parametrize("how", ["truncate", "flip", "empty", "remove"])
@pytest.mark.parametrize("file", ["training.safetensors", "policy.safetensors", "config.json", "meta.json"])
def test_a_damaged_checkpoint_is_passed_over_for_the_whole_one_beside_it(trained, file, how, tmp_path):
    config, source = trained
    run = tmp_path / "run"
    shutil.copytree(source, run)
    older, newer = checkpoints(run)
    assert (older.name, newer.name) == ("1-policy-00000003", "1-policy-00000006")
    damage(newer / file, how)
    assert newest(run)[0] == older
    assert Run.open(run).checkpoint == older
    load_policy(run)
    if file != "training.safetensors":  # a policy acts without it
        with pytest.raises(CheckpointError):
            load_checkpoint(newer)
    child.train(config, run)  # goes on from the older one, over the damaged one
    assert_same(source, run)


def test_when_all_are_damaged_the_run_is_refused_by_name(trained, tmp_path):
    config, source = trained
    run = tmp_path / "run"
    shutil.copytree(source, run)
    for path in checkpoints(run):
        damage(path / "training.safetensors", "flip")
    with pytest.raises(CheckpointError, match=r"training\.safetensors is corrupted"):
        child.train(config, run)
    with pytest.raises(CheckpointError, match="no checkpoint of"):
        Run.open(run)
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        Run.open(tmp_path)


def test_a_run_of_another_configuration_is_refused_with_what_differs(trained):
    config, run = trained
    other = config.changed({"training.learning_rate": 0.5, "seed": 3})
    with pytest.raises(CheckpointError, match=r"seed = 0 \(asked: 3\).*training.learning_rate = 0.001 \(asked: 0.5\)"):
        child.train(other, run)
    trainer = child.trainer(config, run)
    trainer.demonstrations = trainer.demonstrations.first(2)
    with pytest.raises(CheckpointError, match=r"demonstrations \[0, 1, 2, 3, 4\] \(asked: \[0, 1\]\)"):
        trainer.train()


def test_an_option_of_the_environment_that_is_no_longer_asked_for_is_another_configuration(trained):
    config, run = trained
    trainer = child.trainer(config, run)
    before = config.changed({"task.options": {"points": 8}})
    about = {"config": before.to_json(), "demonstration_seeds": [0, 1, 2, 3, 4]}
    with pytest.raises(CheckpointError, match=r"task\.options\.points = 8 \(asked: None\)"):
        trainer._check_same(about)
    trainer.config = before
    trainer._check_same(about)


def test_a_run_from_before_a_field_was_added_has_its_default(trained):
    config, run = trained
    trainer = child.trainer(config, run)
    values = json.loads(config.to_json())
    del values["policy"]["masking"]["end"]
    older = {"config": json.dumps(values), "demonstration_seeds": [0, 1, 2, 3, 4]}
    trainer._check_same(older)
    trainer.config = config.changed({"policy.masking.end": False})
    with pytest.raises(CheckpointError, match=r"policy\.masking\.end = True \(asked: False\)"):
        trainer._check_same(older)


def test_a_checkpoint_describes_itself(trained):
    config, run = trained
    opened = Run.open(run)
    assert opened.config == config
    assert opened.demonstration_seeds == [0, 1, 2, 3, 4]
    assert opened.meta["frozen"] == {"tokenizer": load_policy(run).tokenizer.fingerprint()}
    assert opened.spec == small.spec(config)
    assert opened.meta["progress"]["totals"] == {"tokenizer": 6, "policy": 6}
    policy = opened.loader(temperature=0.5)()
    assert policy.sampling.temperature == 0.5
    assert len(checkpoints(run)) == 2, "older ones are removed"


def test_the_policy_acts_with_the_averaged_weights(trained):
    _, run = trained
    stored = tensors(run)
    name = "transformer.head.weight"
    assert torch.equal(stored[f"policy.{name}"], stored[f"average.{name}"])
    assert not torch.equal(stored[f"policy.{name}"], stored[f"model.{name}"])
    assert torch.equal(stored["policy.tokenizer.codebook.codes"], stored["model.tokenizer.codebook.codes"])


def test_two_processes_end_with_the_same_weights(server, tmp_path):
    steps = {"policy.tokenizer.steps": 8, "policy.tokenizer.reset_after": 2, "training.steps": 4}
    config = small.tiny("long", **steps, **{"task.name": "mine/waves"})
    small.store(tmp_path / "data.zarr")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    rest = (port, config, tmp_path / "run", tmp_path / "data.zarr", tmp_path)
    processes = [server.Process(target=child.train_as_rank, args=(rank, 2, *rest)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    first, second = (load_file(tmp_path / f"rank-{rank}.safetensors") for rank in range(2))
    assert not [name for name in first if not torch.equal(first[name], second[name])]
    saved = load_file(newest(tmp_path / "run")[0] / "training.safetensors")
    assert all(torch.equal(saved[f"model.{name}"], tensor) for name, tensor in first.items())
    assert newest(tmp_path / "run")[1]["progress"]["totals"] == {"tokenizer": 8, "policy": 4}


def test_a_loss_that_is_no_number_stops_the_run_and_spares_the_checkpoint(tmp_path):
    config = small.tiny("short", **{"training.checkpoint_every": 1})
    trainer = child.trainer(config, tmp_path)
    update = trainer._update

    def poisoned(number, stage, *rest):
        if number == 1 and trainer.progress.step == 2:
            with torch.no_grad():
                trainer.policy.transformer.head.weight[0, 0] = torch.nan
        return update(number, stage, *rest)

    trainer._update = poisoned
    with pytest.raises(ConfigError, match=r"policy loss is nan .* at step 2: lower learning_rate"):
        trainer.train()
    assert newest(tmp_path)[0].name == "1-policy-00000002"
    assert all(tensor.isfinite().all() for tensor in tensors(tmp_path).values())
