"""README.md as a new user follows it: its commands and snippets work, in their order, only smaller."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mgp.cli import COMMANDS, main
from mgp.commands.train import parse
from mgp.presets import full_name
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


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)", TEXT))))
def test_what_is_linked_is_there(link):
    assert (Path(__file__).parents[1] / link).exists()
