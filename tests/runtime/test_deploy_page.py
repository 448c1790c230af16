"""What docs/deploy.md shows of the server works as it stands there."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import served

from mgp.runtime.measures import Measures
from mgp.runtime.request import Request

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
SERVER = PAGE[PAGE.index("## A server") :]
BLOCKS = re.findall(r"```python\n(.*?)```", SERVER, re.S)


class Robot:
    def __init__(self) -> None:
        self.commands: list = []

    def observe(self):
        return served.frames(1, len(self.commands))[0]

    def command(self, action) -> None:
        self.commands.append(action)


def here(code: str, server) -> str:
    code = code.replace('"192.168.0.5", 8000', f'"127.0.0.1", {server.port}')
    return code.replace("192.168.0.5:8000", served.address(server)).replace("timeout=0.05", f"timeout={served.PATIENT}")


def test_the_loop_on_the_robot():
    robot = Robot()
    names = {"robot": robot, "key": served.KEY, "running": lambda: len(robot.commands) < 6}
    (code,) = (block for block in BLOCKS if "PolicyClient(" in block and "Websocket" not in block)
    with served.serving(key=served.KEY) as server:
        exec(here(code, server), names)
    assert names["policy"].counts["fresh"] == 6


def test_the_stock_client():
    pytest.importorskip("openpi_client", reason="openpi-client is not installed: `make setup`")
    names = {"robot": Robot(), "key": served.KEY}
    (code,) = (block for block in BLOCKS if "Websocket" in block)
    with served.serving(key=served.KEY) as server:
        exec(here(code, server), names)
        names["client"]._ws.close()
    assert names["action"].shape == (3,)


def test_words_and_figures_that_are_named_exist():
    words = [one.name for one in fields(Request) if one.name != "observation"]
    assert not [word for word in words if f"`{word}`" not in SERVER]
    text = Measures().text()
    assert not [name for name in re.findall(r"`(mgp_\w+)", SERVER) if name not in text]
