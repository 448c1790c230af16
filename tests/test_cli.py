from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import small
from mgp import __version__
from mgp.cli import COMMANDS, main
from mgp.commands import eval as eval_command
from mgp.commands.options import parse_options
from mgp.commands.train import parse
from mgp.data.store import EpisodeStore
from mgp.errors import ConfigError, DataError
from mgp.policies import methods
from mgp.presets import get_config
from mgp.training.loop import Trainer
from mgp.workflows.demonstrations import load_demonstrations
from mgp.workflows.train import train

EXPECTED = {  # words that the help of each command must show
    "demo": ["--task", "--episodes", "--output", "report"],
    "envs": ["environments", "methods"],
    "collect": ["--episodes", "--seed", "--observation", "--option", "points=1024", "--force", "metaworld/assembly"],
    "train": ["--method", "--task", "--data", "--minutes", "--output", "--option", "--task.demonstrations",
              "--task.held-out", "--training.steps", "--encoder.frame", "--augmentation.rotation",
              "--policy.masking.start", "--policy.sampling.temperature", "--policy.transformer.dim", "torchrun"],
    "eval": ["--episodes", "--seed", "--csv", "Wilson", "--env", "--sampling.execution-horizon", "--option",
             "--missing", "--missing-burst", "--missing-from", "held-out"],
    "eval-tokenizer": ["--data", "reconstruction", "held-out"],
    "analyze": ["confidence", "--env", "--episodes", "--seed", "--output", "flip rate", "basketball-midway"],
    "export": ["load_policy", "--engine", "--data", "openvino-bf16"],
    "serve": ["openpi", "--host", "--port", "--api-key-file", "MGP_API_KEY", "/healthz", "/metrics", "--max-rate",
              "--max-clients", "--batch", "--sampling.execution-horizon", "PolicyClient"],
    "report": ["--output", "HTML"],
}  # fmt: skip


TRAIN = ["train", "--task", "assembly"]


def fails(words: list[str], capsys) -> str:
    """Run a command that must end with exit code 2; returns what it said."""
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out
    return " ".join((said.err + said.out).replace("│", " ").split())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"mgp {command}" in text
    missing = [word for word in EXPECTED[command] if word not in text]
    assert not missing


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_the_overview_lists_every_command(words, capsys):
    main(words)
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in COMMANDS)


def test_the_installed_command():
    mgp = Path(sys.executable).with_name("mgp")
    out = subprocess.run([mgp, "--version"], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == __version__


def test_the_list_of_environments_and_methods(capsys):
    main(["envs"])
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("  metaworld/") for line in lines) == 50
    assert {f"  {name}" for name in methods()} <= set(lines)


def test_an_unknown_command(capsys):
    said = fails(["trian"], capsys)
    assert "unknown command 'trian'. Did you mean 'train'?" in said
    assert "collect" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train"], "nothing to learn from was named: give --task"),
        ([*TRAIN, "--method", "mgp-shrt"], "unknown method 'mgp-shrt'. Did you mean 'mgp-short'?"),
        ([*TRAIN, "--method=mgp-shrt"], "Did you mean 'mgp-short'?"),
        (["train", "--preset", "metaworld-long"], "`mgp train --method mgp-long --task metaworld/assembly`"),
        (["train", "--preset=dynamic-short", "--task", "x"], "`mgp train --method mgp-short --task metaworld-dynamic/"),
        (["train", "--preset=metaworld-long", "--task", "push"], "`mgp train --method mgp-long --task push`"),
        (["train", "--preset=paper-libero-short"], "`mgp train --method paper-mgp-libero --task "),
        (["train", "--preset", "mine"], "presets are now a method and a task"),
        (["train", "--task", "asembly"], "unknown metaworld task 'asembly'. Did you mean 'assembly'?"),
        (["train", "--task", "metawrld/assembly"], "Did you mean 'metaworld'?"),
        ([*TRAIN, "--option", "points"], "--option points: write NAME=VALUE"),
        ([*TRAIN, "--training.stepz", "5"], "--training.steps"),
        ([*TRAIN, "--training.steps", "many"], "--training.steps"),
        ([*TRAIN, "--training.steps", "0"], "TrainingConfig.steps = 0: must be above 0"),
        ([*TRAIN, "--policy.horizon", "medium"], "short"),
        ([*TRAIN, "--method", "bc", "--policy.horizon", "short"], "--policy.horizon"),
        ([*TRAIN, "--task.observation", "state", "--encoder.frame", "hand"], "choose encoder.frame = 'world'"),
        ([*TRAIN, "--policy.transformer.heads", "3"], "is no multiple of heads = 3"),
        (["train", "--data", "no/such.zarr"], "there is no store at no/such.zarr"),
        (["collect", "asembly"], "Did you mean 'assembly'?"),
        (["collect", "metaworld/asembly", "--episodes", "1"], "Did you mean 'assembly'?"),
        (["collect", "metaworld/assembly", "--episodes", "0"], "episodes=0"),
        (["collect", "metaworld/assembly", "--option", "pionts=5"], "Did you mean 'points'?"),
        (["collect"], "env"),
        (["demo", "--task", "asembly"], "Did you mean 'assembly'?"),
        (["eval", "no/such/run"], "no/such/run holds no checkpoint: name a folder that `mgp train` wrote"),
        (["eval"], "run"),
        (["eval-tokenizer", "no/such/run"], "holds no checkpoint"),
        (["analyze", "confidence", "no/such/run"], "holds no checkpoint"),
        (["analyze", "confdence", "no/such/run"], "confidence"),
        (["envs", "--verbose"], "--verbose"),
    ],
)
def test_mistakes_end_with_code_2_and_a_remedy(words, expected, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert expected in fails(words, capsys)
    assert not list(tmp_path.iterdir()), "nothing is written before the mistake is found"


def test_ctrl_c_ends_with_its_own_code(capsys, monkeypatch):
    import mgp.commands.envs as command

    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "main", interrupted)
    with pytest.raises(SystemExit) as caught:
        main(["envs"])
    assert caught.value.code == 130
    assert "goes on from there" in capsys.readouterr().err


def test_nested_fields_override_the_method():
    words = [
        "--method",
        "mgp-short",
        "--task",
        "reach",
        "--training.steps",
        "5",
        "--seed",
        "3",
        "--option",
        "points=64",
    ]
    words += ["--output", "here", "--encoder.hidden", "8", "16", "--policy.tokenizer.codes", "32"]
    args = parse(words)
    expected = get_config("mgp-short", "reach").changed(
        {
            "training.steps": 5,
            "encoder.hidden": (8, 16),
            "seed": 3,
            "policy.tokenizer.codes": 32,
            "task.options": {"points": 64},
        }
    )
    assert args.config == expected
    assert args.output == Path("here")


@pytest.mark.parametrize(
    ("method", "task"), [("mgp-long", "buttons/on-off"), ("paper-mgp-short", "push"), ("bc", "metaworld/push")]
)
def test_method_and_task_give_the_defaults(method, task):
    assert parse(["--method", method, "--task", task]).config == get_config(method, task)
    assert parse(["--minutes", "5", f"--method={method}", f"--task={task}"]).minutes == 5
    changed = parse(["--policy.sampling.execution-horizon", "4", "--task", task, "--method", method]).config
    assert changed == get_config(method, task).changed({"policy.sampling.execution_horizon": 4})


def test_a_task_may_be_named_with_its_family_or_without():
    for task in ("door-close", "metaworld/door-close"):
        assert parse(["--task", task]).config.task.name == "metaworld/door-close"


def test_options_of_environments_are_json_or_words():
    pairs = ["points=1024", "cloud=oracle", "depth_noise=0.002", "arm=true", "name=a=b"]
    values = {"points": 1024, "cloud": "oracle", "depth_noise": 0.002, "arm": True, "name": "a=b"}
    assert parse_options(pairs) == values
    with pytest.raises(ConfigError, match="write NAME=VALUE"):
        parse_options(["=3"])


def test_eval_takes_its_defaults_from_the_run_wherever_it_is_named(tmp_path):
    sampling = {"policy.sampling.mask_ratio": 0.4, "policy.sampling.temperature": 0.2}
    config = small.tiny("long", **sampling)
    Trainer(config, small.demonstrations(), tmp_path, quiet=True).train()
    for words in ([str(tmp_path), "--episodes", "3"], ["--episodes", "3", str(tmp_path)]):
        args, run = eval_command.parse(words)
        assert (args.run, args.episodes, args.sampling) == (tmp_path, 3, config.policy.sampling)
        assert run.config == config
    args, _ = eval_command.parse(["--sampling.variant", "full", str(tmp_path)])
    assert args.sampling == config.policy.sampling.changed(variant="full")


def test_eval_shows_the_sampling_options_of_the_run_that_is_named(tmp_path, capsys):
    for method, there in (("mgp-long", True), ("bc", False)):
        Trainer(small.tiny_of(method), small.demonstrations(), tmp_path / method, quiet=True).train()
        with pytest.raises(SystemExit):
            main(["eval", str(tmp_path / method), "--help"])
        assert ("--sampling.temperature" in capsys.readouterr().out) is there


def test_demonstrations_that_do_not_fit_the_run_are_refused(tmp_path):
    task = small.tiny().task  # metaworld/reach by its state, five demonstrations
    data = small.store(tmp_path / "a.zarr", env=task.name, options={"horizon": 24}, observation="state")
    assert len(load_demonstrations(task, data).ends) == 5
    assert len(load_demonstrations(replace(task, demonstrations=2, held_out=3), data).ends) == 2
    for other in (replace(task, demonstrations=9), replace(task, held_out=4)):
        with pytest.raises(
            ConfigError, match=r"has 5 episodes, task.demonstrations = . and task.held_out = .*: extend"
        ):
            load_demonstrations(other, data)
    with pytest.raises(ConfigError) as caught:
        load_demonstrations(replace(task, demonstrations=9), data)
    remedy = f"`mgp collect metaworld/reach --episodes 9 --observation state --option horizon=24 --output {data}`"
    assert remedy in str(caught.value)
    with pytest.raises(DataError, match="the run wants observation 'cloud'"):
        load_demonstrations(replace(task, observation="cloud"), data)
    with pytest.raises(ConfigError, match="holds metaworld/reach, the run wants metaworld/push: name the right --data"):
        load_demonstrations(replace(task, name="metaworld/push"), data)
    with pytest.raises(ConfigError, match="was recorded with horizon = 24, the run wants 10"):
        load_demonstrations(replace(task, options={"horizon": 10}), data)


def test_stores_of_before_they_said_their_actions_are_asked_of_the_simulator(tmp_path):
    task = small.tiny().task
    old = small.store(tmp_path / "old.zarr", env=task.name, actions=None, hold_action=[0.0, 0.0, 0.0])
    assert "actions" not in EpisodeStore.open(old).meta
    found = load_demonstrations(task, old).meta
    assert (found["actions"], found["hold_action"]) == ("displacement", [0.0, 0.0, 0.0, None])


def test_training_wants_a_device_that_is_there(tmp_path, monkeypatch):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="cuda"):
        train(small.tiny(), device="cuda")
    with pytest.raises(ConfigError, match="gpu"):
        train(small.tiny(), device="gpu")
