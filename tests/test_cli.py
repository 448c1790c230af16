from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import small
from mgp import __version__
from mgp.cli import COMMANDS, main
from mgp.commands import eval as eval_command
from mgp.commands.train import check_fits, parse, train
from mgp.data.demonstrations import Demonstrations
from mgp.errors import ConfigError
from mgp.presets import get_preset
from mgp.training.loop import Trainer

EXPECTED = {  # words that the help of each command must show
    "demo": ["--task", "--episodes", "--output", "report"],
    "envs": ["environments", "presets"],
    "collect": ["--episodes", "--seed", "--observation", "--points", "--force", "metaworld/assembly"],
    "train": ["--preset", "--task", "--minutes", "--output", "--env.demonstrations", "--training.steps",
              "--masking.cut",              "--sampling.variant", "--transformer.dim", "torchrun"],
    "eval": ["--episodes", "--seed", "--sampling.variant", "--sampling.temperature", "--csv", "Wilson", "--env",
             "--missing", "--missing-burst", "--missing-from"],
    "eval-tokenizer": ["--data", "reconstruction"],
    "analyze": ["confidence", "--env", "--episodes", "--seed", "--output", "flip rate", "basketball-midway"],
    "report": ["--output", "HTML"],
}  # fmt: skip


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


def test_the_list_of_environments_and_presets(capsys):
    main(["envs"])
    text = capsys.readouterr().out
    assert text.count("metaworld/") == 50
    assert "paper-metaworld-long" in text


def test_an_unknown_command(capsys):
    said = fails(["trian"], capsys)
    assert "unknown command 'trian'. Did you mean 'train'?" in said
    assert "collect" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["train", "--preset", "metaworld-shrt"], "Did you mean 'metaworld-short'?"),
        (["train", "--preset=metaworld-shrt"], "Did you mean 'metaworld-short'?"),
        (["train", "--task", "asembly"], "unknown metaworld task 'asembly'. Did you mean 'assembly'?"),
        (["train", "--task", "metawrld/assembly"], "Did you mean 'metaworld'?"),
        (["train", "--env.name", "metaworld/asembly"], "Did you mean 'assembly'?"),
        (["train", "--training.stepz", "5"], "--training.steps"),
        (["train", "--training.steps", "many"], "--training.steps"),
        (["train", "--training.steps", "0"], "TrainingConfig.steps = 0: must be above 0"),
        (["train", "--policy", "medium"], "short"),
        (["train", "--env.observation", "state"], "choose encoder.frame = 'world'"),
        (["train", "--transformer.heads", "3"], "is no multiple of heads = 3"),
        (["collect", "metaworld/asembly"], "Did you mean 'assembly'?"),
        (["collect", "metaworld/assembly", "--episodes", "0"], "episodes=0"),
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


def test_nested_fields_override_the_preset():
    words = ["--preset", "metaworld-short", "--task", "reach", "--training.steps", "5", "--seed", "3"]
    words += ["--output", "here"]
    args = parse([*words, "--encoder.hidden", "8", "16"])
    preset = get_preset("metaworld-short")
    expected = small.change(
        preset, {"env.name": "metaworld/reach", "training.steps": 5, "encoder.hidden": (8, 16), "seed": 3}
    )
    assert args.config == expected
    assert args.output == Path("here")


@pytest.mark.parametrize("preset", ["metaworld-long", "paper-metaworld-short"])
def test_the_preset_gives_the_defaults(preset):
    assert parse(["--preset", preset]).config == get_preset(preset)
    assert parse(["--minutes", "5", f"--preset={preset}"]).minutes == 5
    changed = parse(["--sampling.variant", "full", "--preset", preset]).config
    assert changed == small.change(get_preset(preset), {"sampling.variant": "full"})


def test_a_task_may_be_named_with_its_family_or_without():
    for task in ("door-close", "metaworld/door-close"):
        assert parse(["--task", task]).config.env.name == "metaworld/door-close"


def test_eval_takes_its_defaults_from_the_run_wherever_it_is_named(tmp_path):
    config = small.tiny("long", **{"sampling.mask_ratio": 0.4, "sampling.temperature": 0.2})
    Trainer(config, small.demonstrations(), tmp_path, small.HOLD, quiet=True).train()
    for words in ([str(tmp_path), "--episodes", "3"], ["--episodes", "3", str(tmp_path)]):
        args, run = eval_command.parse(words)
        assert (args.run, args.episodes, args.sampling) == (tmp_path, 3, config.sampling)
        assert run.config == config
    args, _ = eval_command.parse(["--sampling.variant", "full", str(tmp_path)])
    assert args.sampling == small.change(config, {"sampling.variant": "full"}).sampling


def test_demonstrations_that_do_not_fit_the_run_are_refused(tmp_path):
    config, data = small.tiny(), small.demonstrations()
    check_fits(data, config, tmp_path)
    with pytest.raises(ConfigError, match=r"has 5 episodes, env.demonstrations = 9: extend it with `mgp collect"):
        check_fits(data, small.change(config, {"env.demonstrations": 9}), tmp_path)
    clouds = small.change(small.tiny("short", "cloud"), {"env.demonstrations": 9})
    with pytest.raises(ConfigError, match=f"--points {small.POINTS} --output {tmp_path}`"):
        check_fits(small.demonstrations("cloud"), clouds, tmp_path)
    with pytest.raises(ConfigError, match="wants observation 'cloud'"):
        check_fits(data, small.tiny("short", "cloud"), tmp_path)
    other = Demonstrations(data.arrays, data.ends, data.seeds, {"env": "metaworld/push"})
    with pytest.raises(ConfigError, match="holds metaworld/push, the run wants metaworld/reach"):
        check_fits(other, config, tmp_path)
    shorter = Demonstrations(data.arrays, data.ends, data.seeds, {"env": "metaworld/reach", "horizon": 10})
    with pytest.raises(ConfigError, match=r"recorded for 10 steps, env.horizon = 24"):
        check_fits(shorter, config, tmp_path)


def test_training_wants_a_device_that_is_there(tmp_path, monkeypatch):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="cuda"):
        train(small.tiny(), device="cuda")
    with pytest.raises(ConfigError, match="gpu"):
        train(small.tiny(), device="gpu")
