"""A small trained policy, frames for it, and servers on the loopback interface."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from websockets.sync.client import ClientConnection, connect

import small
from mgp.policies.base import Policy
from mgp.policies.driver import Driver
from mgp.policies.learned import LearnedPolicy
from mgp.runs import load_policy
from mgp.runtime.server import PolicyServer, ServerConfig, in_background
from mgp.runtime.wire import pack, unpack
from mgp.training.loop import Trainer

KEY = "0123456789abcdef0123"
PATIENT = 20.0  # seconds: a busy machine is no failure
_TEMPORARY = tempfile.TemporaryDirectory(prefix="mgp-served-")  # removed when the process ends


@functools.cache
def run(horizon: str = "short") -> Path:
    """The folder of a short training."""
    folder = Path(_TEMPORARY.name) / horizon
    config = small.tiny(horizon, **{"policy.sampling.temperature": 1.0})
    Trainer(config, small.demonstrations(), folder, quiet=True).train()
    return folder


@functools.cache
def policy(horizon: str = "short") -> LearnedPolicy:
    return load_policy(run(horizon))


def frames(count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    return [{"state": random.normal(0, 0.3, small.STATE["state"]).astype(np.float32)} for _ in range(count)]


def acted(served: Policy, shown: Sequence[dict[str, np.ndarray] | None], seed: int = 0) -> np.ndarray:
    """(T, A) as `policy.act` gives them, without a server."""
    driver = Driver(served, [seed])
    return np.stack([driver.act(frame) for frame in shown])


@contextlib.contextmanager
def serving(served: Policy | None = None, **config: Any) -> Iterator[PolicyServer]:
    with in_background(served or policy(), ServerConfig(port=0, **config)) as server:
        yield server


def address(server: PolicyServer) -> str:
    return f"127.0.0.1:{server.port}"


@contextlib.contextmanager
def raw(server: PolicyServer, query: str = "", **headers: str) -> Iterator[ClientConnection]:
    """A bare connection, past the metadata."""
    url = f"ws://{address(server)}/{query}"
    with connect(url, compression=None, max_size=None, additional_headers=headers, proxy=None) as socket:
        unpack(socket.recv(timeout=PATIENT))
        yield socket


def ask(socket: ClientConnection, message: dict[str, Any] | bytes | str) -> dict[str, Any] | str:
    """A reply, or the text of a refusal."""
    socket.send(pack(message) if isinstance(message, dict) else message)
    answer = socket.recv(timeout=PATIENT)
    return answer if isinstance(answer, str) else unpack(answer)


def get(server_address: str, path: str, key: str = "") -> tuple[int, str]:
    """Status and body of a page."""
    headers = {"Authorization": f"Api-Key {key}"} if key else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://{server_address}{path}", headers=headers)) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def eventually(condition: Any, seconds: float = PATIENT) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return bool(condition())


@contextlib.contextmanager
def command(*words: str | Path, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`mgp serve` as a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mgp.cli", "serve", *map(str, words), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "ws://" in said, said + process.stdout.read()
        yield process, said.split("ws://")[1].strip()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
