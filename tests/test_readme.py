"""README.md as a new user follows it: its commands and snippets work, in their order, only smaller."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mgp.cli import COMMANDS, main
from mgp.commands.serve import parse as parse_serve
from mgp.commands.train import parse
from mgp.policies.driver import Driver
from mgp.policies.learned import LearnedPolicy
from mgp.presets import full_name
from mgp.runtime.server import ServerConfig, in_background
from test_own_data import SIZES, recordings

TEXT = (Path(__file__).parents[1] / "README.md").read_text()
SMALL = {
    word.removeprefix("--").replace("-", "_"): int(value)
    for word, value in pairwise(SIZES)
    if word.startswith("--policy") or word in ("--training.batch", "--encoder.dim")
}


def section(heading: str) -> str:
    return re.split(r"\n##", TEXT.split(f"# {heading}\n")[1])[0]


def blocks(heading: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section(heading), re.DOTALL)


def commands(heading: str) -> list[list[str]]:
    """The words after `mgp` of each line."""
    lines = [shlex.split(line, comments=True) for block in blocks(heading, "sh") for line in block.splitlines()]
    assert all(words[0] == "mgp" for words in lines)
    return [words[1:] for words in lines]


def test_every_command_is_shown_and_those_of_training_can_be_read():
    shown = commands("Use it")
    assert {words[0] for words in shown} == COMMANDS.keys() - {"demo"}
    trained = set()
    for words in shown:
        if words[0] == "train":
            config = parse(words[1:]).config
            trained.add(f"runs/{config.task.name.removeprefix('metaworld/')}-{config.method}-seed0")
    runs = {word for words in shown for word in words if re.fullmatch(r"runs/.*-seed0", word)}
    assert runs - trained == {"runs/push-mgp-long-seed0"}, "of a task that is trained as the one above it"
    for words in shown:
        if "--env" in words:
            assert full_name(words[words.index("--env") + 1]) in TEXT


def test_own_demonstrations_from_writing_them_to_a_control_loop(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written, trained = blocks("On your own demonstrations", "python")
    made = [[one[key] for key in ("action", "state", "cloud")] for one in recordings("displacement")]
    exec(written, {"my_recordings": made})
    for words in commands("On your own demonstrations"):
        main([*words, *(SIZES if words[0] == "train" else [])])
    assert "held-out episode of mine/task" in capsys.readouterr().out
    assert "Held-out recordings" in Path("report.html").read_text()

    smaller = trained.replace('"training.steps": 3000', f"**{SMALL | {'training.steps': 3}}")
    assert smaller != trained
    exec(smaller, {})

    (loop,) = blocks("In your own control loop or environment", "python")
    frames = iter([{"state": made[0][1][0], "cloud": made[0][2][0]}, None])
    sent: list[np.ndarray] = []
    robot = SimpleNamespace(read=lambda: next(frames), send=sent.append)
    with pytest.raises(StopIteration):  # when the frames are over
        exec(loop, {"robot": robot, "done": False})
    assert [action.shape for action in sent] == [(4,), (4,)]

    ((command, *words),) = commands("On a robot with the policy elsewhere")
    assert command == "serve"
    monkeypatch.setenv("MGP_API_KEY", "0123456789abcdef")
    args, policy = parse_serve(words)
    assert (args.run, args.host) == (Path("runs/mine"), "0.0.0.0")
    (loop,) = blocks("On a robot with the policy elsewhere", "python")
    hold, commanded = [0.0, 0.0, 0.0], elsewhere(loop, policy, {"state": made[0][1][0], "cloud": made[0][2][0]})
    moved = np.array(commanded[:-1])
    np.testing.assert_allclose(moved, acted(policy, made[0], len(moved)), rtol=1e-4, atol=1e-5)
    assert commanded[-1].tolist() == [*hold, commanded[-2][3]], "the server is gone: held, the gripper as it was"


def acted(policy: LearnedPolicy, recorded: list[np.ndarray], steps: int) -> np.ndarray:
    """What the policy does without a server."""
    driver = Driver(policy, [0])
    return np.array([driver.act({"state": recorded[1][0], "cloud": recorded[2][0]}) for _ in range(steps)])


def elsewhere(loop: str, policy: LearnedPolicy, frame: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The commands of the client's loop to a robot that sees this; the server goes away after six of them."""
    commanded: list[np.ndarray] = []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(in_background(policy, ServerConfig(port=0, key=os.environ["MGP_API_KEY"])))

        def observe():
            if len(commanded) == 6:
                stack.close()
            return frame

        names = {
            "robot": SimpleNamespace(observe=observe, command=commanded.append),
            "running": lambda: len(commanded) < 100,
            "key": os.environ["MGP_API_KEY"],
        }
        patient = loop.replace("192.168.0.5:8000", f"127.0.0.1:{server.port}").replace("timeout=0.05", "timeout=20.0")
        assert patient != loop
        exec(patient, names)
        assert names["policy"].counts == {"fresh": 6, "plan": 0, "hold": 1}
    return commanded


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)", TEXT))))
def test_what_is_linked_is_there(link):
    assert (Path(__file__).parents[1] / link).exists()
