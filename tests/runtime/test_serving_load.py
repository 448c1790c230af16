"""A server under load and over time. The long versions are in the slow set.

What is asserted about time is asserted on an idle machine alone: the tests print whether it was (`-s` shows it).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pytest
import served
from hostile import HOSTILE
from served import ask, frames
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from mgp.client import PolicyClient
from mgp.errors import MGPError
from mgp.evaluation.idle import Others, watched
from mgp.runtime.wire import pack

MEGABYTE = 2**20
TICKS = os.sysconf("SC_CLK_TCK")


def memory(process: int) -> int:
    """Resident bytes."""
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu(process: int) -> float:
    """Seconds it computed."""
    with open(f"/proc/{process}/stat") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / TICKS


@dataclass
class Robot:
    """Acts at a fixed rate until it is told to stop; a step is late if its action comes after the period."""

    address: str
    rate: float
    seed: int
    timeout: float
    stop: threading.Event
    seconds: list[float] = field(default_factory=list)  # of each step
    held: int = 0
    error: str = ""

    def run(self) -> None:
        try:
            with PolicyClient(self.address, timeout=self.timeout) as client:
                client.reset(self.seed)
                shown, due, step = frames(50, self.seed), time.monotonic(), 0
                while not self.stop.is_set():
                    begin = time.monotonic()
                    client.act(shown[step % 50])
                    self.seconds.append(time.monotonic() - begin)
                    self.error = client.reason if client.lost or client.reason.startswith("bad") else self.error
                    step, due = step + 1, due + 1 / self.rate
                    if step % 100 == 0:
                        client.reset(self.seed)
                    time.sleep(max(0.0, due - time.monotonic()))
                self.held = client.counts["hold"]
        except MGPError as error:
            self.error = str(error)


def slow(address: str, stop: threading.Event) -> None:
    """Asks, and takes its time to read; sends a message in two halves with a pause between."""
    with connect(f"ws://{address}", proxy=None, max_queue=1) as socket:
        while not stop.is_set():
            message = pack({**frames(1)[0], "mgp": {"reset": True}})
            socket.send([message[:20], message[20:]])
            stop.wait(0.7)
            socket.recv()


def dying(address: str, stop: threading.Event) -> None:
    """Comes, asks, and goes without a word before the answer is there; again and again."""
    while not stop.is_set():
        socket = connect(f"ws://{address}", proxy=None)
        socket.recv()
        socket.send(pack(frames(1)[0]))
        socket.socket.close()
        stop.wait(0.3)


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_eight_clients_at_20_hz_one_slow_one_dying(seconds):
    stop = threading.Event()
    with served.command(served.run("long")) as (process, address), watched(children=[process.pid]) as machine:
        robots = [Robot(address, 20.0, seed, served.PATIENT if seconds < 10 else 0.05, stop) for seed in range(6)]
        work = [*(robot.run for robot in robots), lambda: slow(address, stop), lambda: dying(address, stop)]
        threads = [threading.Thread(target=one, daemon=True) for one in work]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        stop.set()
        for thread in threads:
            thread.join(served.PATIENT)
        assert not any(thread.is_alive() for thread in threads)
        assert process.poll() is None
        page = served.get(address, "/metrics")[1]
    assert [robot.error for robot in robots] == [""] * 6
    assert 'mgp_refusals_total{name="internal"} 0' in page
    steps = np.concatenate([robot.seconds for robot in robots])
    late = float((steps > 0.05).mean())
    print(
        f"{len(steps)} steps, p50 {1e3 * np.median(steps):.1f} ms, p99 {1e3 * np.quantile(steps, 0.99):.1f} ms,"
        f" {late:.2%} late, {sum(robot.held for robot in robots)} held"
    )
    if seconds > 10 and alone(machine):
        assert sum(robot.held for robot in robots) == 0
        assert len(steps) > 0.95 * 6 * 20 * seconds


@pytest.mark.parametrize("seconds", [6, pytest.param(600, marks=pytest.mark.slow)])
def test_soak(seconds):
    """Episode after episode, connection after connection, with hostile messages between: nothing grows."""
    hostile = [data for data, _ in HOSTILE.values()]
    with (
        served.command(served.run("long"), "--max-rate", "10000") as (process, address),
        watched(children=[process.pid]) as machine,
    ):
        samples: list[tuple[float, float, int, float]] = []  # memory, computing, requests, median seconds of a step
        begin, rounds, requests = time.monotonic(), 0, 0
        robot, endless = (PolicyClient(address, timeout=served.PATIENT) for _ in range(2))  # these connections stay
        while time.monotonic() - begin < seconds or rounds < 12:
            taken = []
            robot.reset(rounds)
            for frame in frames(30, rounds):
                start = time.monotonic()
                robot.act(frame)
                taken.append(time.monotonic() - start)
            with PolicyClient(address, timeout=served.PATIENT) as short:
                for frame in frames(9, rounds):
                    short.act(frame)
                    endless.act(frame)  # of an episode that is never reset
            bad(address, hostile[rounds % len(hostile)])
            requests, rounds = requests + 49, rounds + 1
            samples.append((memory(process.pid), cpu(process.pid), requests, float(np.median(taken))))
        robot.close()
        endless.close()
        assert process.poll() is None
    part = max(3, len(samples) // 4)
    early, late = samples[part : 2 * part], samples[-part:]  # what is before is warming up
    grown = np.median([one[0] for one in late]) - np.median([one[0] for one in early])
    first, last = (1e3 * (p[-1][1] - p[0][1]) / (p[-1][2] - p[0][2]) for p in (early, late))
    waits = [1e3 * float(np.median([one[3] for one in p])) for p in (early, late)]
    print(
        f"{requests} requests in {rounds} rounds: memory +{grown / MEGABYTE:.2f} MB, {first:.2f} then {last:.2f}"
        f" CPU-ms a request, {waits[0]:.2f} then {waits[1]:.2f} ms a step"
    )
    assert grown < (8 if seconds < 10 else 4) * MEGABYTE
    assert last < 1.5 * first + 1
    if alone(machine):
        assert waits[1] < 1.5 * waits[0] + 1


def alone(machine: Others) -> bool:
    """Whether times mean anything; said, so that nobody takes a busy machine's pass for an idle one's."""
    word = "asserted" if machine.idle else "not asserted"
    print(f"others used {machine.cores} cores meanwhile: what is asserted of an idle machine is {word}")
    return machine.idle


def bad(address: str, message: bytes) -> None:
    with connect(f"ws://{address}", proxy=None) as socket:
        socket.recv()
        with contextlib.suppress(ConnectionClosed):
            assert isinstance(ask(socket, message), str)
