"""The client on the robot: an action in time, whatever becomes of the server."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import served
from served import frames, serving
from test_server import Gate
from websockets.sync.server import serve

import small
from mgp.client import PolicyClient
from mgp.errors import ConnectionLostError, MessageError, RemoteError
from mgp.policies.driver import Driver
from mgp.runtime.limits import ClientLimits
from mgp.runtime.metadata import describe
from mgp.runtime.wire import pack

NAN = {"state": np.full(7, np.nan, np.float32)}


@pytest.fixture
def gate(monkeypatch):
    return Gate(served.policy(), monkeypatch)


def held(last: np.ndarray) -> np.ndarray:
    """The action that keeps still after this one."""
    return np.array([last[i] if still is None else still for i, still in enumerate(small.HOLD)], np.float32)


def test_it_needs_no_torch():
    """Nor anything else that is not named; a class that needs more must not be imported in mgp/runtime/__init__.py."""
    code = (
        "import sys, mgp.client\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(*sorted(n for n in names - set(sys.stdlib_module_names) if not n.startswith('_')))\n"
        "print(*(n for n in sys.modules if n.startswith('mgp.')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    installation = {"mgp", "cython_runtime", "sitecustomize"}  # not of the client's own doing
    assert set(out[0].split()) - installation == {"numpy", "msgpack", "websockets"}
    assert set(out[1].split()) == {"mgp.client", "mgp.errors", "mgp.runtime", "mgp.runtime.link", "mgp.runtime.wire"}


def test_a_late_answer_is_bridged_then_held_and_joined_where_it_belongs(gate):
    shown, policy = frames(9), served.policy()
    driver = Driver(policy, [0])
    expected = [driver.act(frame) for frame in shown[:4]]
    beyond = driver.chunk.actions[0, 4:]
    driver.see(0, shown[4])
    late = driver.plan().actions[0]
    with serving() as server, PolicyClient(served.address(server), timeout=served.PATIENT, bridge=2) as client:
        client.reset()
        np.testing.assert_array_equal([client.act(frame) for frame in shown[:4]], expected)
        gate.open.clear()
        client.timeout = 0.05
        bridged = [client.act(frame) for frame in shown[4:6]]
        np.testing.assert_array_equal(bridged, beyond[:2])
        assert (client.status, client.reason) == ("plan", "late")
        np.testing.assert_array_equal(client.act(shown[6]), held(bridged[-1]))
        assert (client.status, client.reason) == ("hold", "late")
        gate.open.set()
        assert served.eventually(lambda: not client.link._answers.empty())
        client.timeout = served.PATIENT
        np.testing.assert_array_equal(client.act(shown[7]), late[2])  # two of its actions' time has passed
        assert (client.status, client.reason) == ("fresh", "")
        np.testing.assert_array_equal(client.act(shown[8]), late[3])
        assert client.counts == {"fresh": 6, "plan": 2, "hold": 1}
        assert server.measures.misses.total == 1
        assert server.measures.guards["after-gap"] == 1


def test_a_robot_that_only_held_runs_a_late_plan_from_its_beginning(gate):
    shown, driver = frames(5), Driver(served.policy(), [0])
    for frame in shown[:4]:
        last = driver.act(frame)
    driver.see(0, shown[4])
    late = driver.plan().actions[0]
    with serving() as server, PolicyClient(served.address(server), timeout=served.PATIENT, bridge=0) as client:
        for frame in shown[:4]:
            client.act(frame)
        gate.open.clear()
        client.timeout = 0.02
        for frame in frames(5)[4:] + frames(6, 1):
            np.testing.assert_array_equal(client.act(frame), held(last))
        gate.open.set()
        assert served.eventually(lambda: not client.link._answers.empty())
        client.timeout = served.PATIENT
        np.testing.assert_array_equal(client.act(shown[0]), late[0])


def test_a_frame_that_is_refused_leaves_the_plan_to_go_on():
    shown = frames(4)
    with serving() as server, PolicyClient(served.address(server), timeout=served.PATIENT) as client:
        got = [client.act(shown[0]), client.act(NAN), client.act(shown[2]), client.act(shown[3])]
        assert client.reason == ""
        client.act(NAN)
        assert client.reason.startswith("bad-observation: 'state' contains NaN or Inf")
        assert client.status == "plan"
        assert server.measures.refusals["bad-observation"] == 2
        for _ in range(8):
            last = client.act(NAN)
        assert client.status == "hold"
        np.testing.assert_array_equal(last, held(last))
    np.testing.assert_array_equal(got, served.acted(served.policy(), [shown[0], None, *shown[2:]]))


def test_a_frame_that_cannot_be_sent_is_none():
    bad, shown = {"state": np.array([None] * 7)}, frames(4)
    with serving() as server, PolicyClient(served.address(server), timeout=served.PATIENT) as client:
        with pytest.raises(MessageError, match="cannot be sent"):
            client.act(bad)
        got = [client.act(shown[0]), client.act(bad)]
        assert (client.status, client.reason.partition(" (")[0]) == ("plan", "bad frame: cannot be sent")
        got.append(client.act(shown[2]))
        assert (client.status, client.reason) == ("fresh", "")
    np.testing.assert_array_equal(got, served.acted(served.policy(), [shown[0], None, shown[2]]))


def test_a_frame_that_did_not_arrive():
    shown = [*frames(5), None, *frames(6, 1)]
    with serving() as server, PolicyClient(served.address(server), timeout=served.PATIENT) as client:
        got = [client.act(frame) for frame in shown]
        assert server.measures.guards["missing"] == 1
    np.testing.assert_array_equal(got, served.acted(served.policy(), shown))


def test_an_old_frame_counts_as_missing():
    shown, now = frames(6), time.monotonic()
    with serving(limits=ClientLimits(max_age=5.0)) as server:
        with PolicyClient(served.address(server), timeout=served.PATIENT) as client:
            got = [client.act(frame, time=now - 60 if step == 4 else None) for step, frame in enumerate(shown)]
        assert server.measures.guards["stale"] == 1
    np.testing.assert_array_equal(got, served.acted(served.policy(), [*shown[:4], None, shown[5]]))


def test_nothing_is_commanded_before_the_first_answer(gate):
    """To hold where nothing was ever commanded would be a guess."""
    with serving() as server, PolicyClient(served.address(server), patience=0.3) as client:
        with pytest.raises(RemoteError, match="bad-observation: 'state' contains NaN") as caught:
            client.act(NAN)
        assert caught.value.name == "bad-observation"
        with pytest.raises(RemoteError, match="first observation of an episode is missing"):
            client.act(None)
        gate.open.clear()
        with pytest.raises(ConnectionLostError, match="gave no first action"):
            client.act(frames(1)[0])
        gate.open.set()
        client.patience = served.PATIENT
        client.reset()
        assert client.act(frames(1)[0]).shape == (3,)


def test_replies_as_they_are_for_who_asks_himself():
    with serving() as server, PolicyClient(served.address(server)) as client:
        reply = client.infer(frames(1)[0], reset=True, episode="a")
        assert reply["actions"].shape == (4, 3)
        assert reply["mgp"]["episode"] == "a"
        with pytest.raises(RemoteError, match="bad-request: unknown word under 'mgp' 'stop'") as caught:
            client.infer(frames(1)[0], stop=True)
        assert caught.value.name == "bad-request"
        with pytest.raises(MessageError, match="cannot be sent"):
            client.infer({"state": np.array([None])})
        assert client.infer(frames(1)[0])["actions"].shape == (4, 3)


def test_who_asks_himself_waits_no_longer_than_he_says(gate):
    with serving() as server, PolicyClient(served.address(server)) as client:
        gate.open.clear()
        begin = time.monotonic()
        with pytest.raises(ConnectionLostError, match="no answer in time; reset"):
            client.infer(frames(1)[0], timeout=0.2)
        assert time.monotonic() - begin < 5
        with pytest.raises(ConnectionLostError):
            client.infer(frames(1)[0])
        gate.open.set()
        client.reset()
        assert client.infer(frames(1)[0])["actions"].shape == (4, 3)


@contextlib.contextmanager
def pretender(metadata: dict, *replies: bytes | str):
    """A server that says what it is told to, whatever it is asked."""

    def answer(socket) -> None:
        socket.send(pack(metadata))
        for reply in replies:
            socket.recv()
            socket.send(reply)

    with serve(answer, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (pack({"actions": np.full((4, 3), np.nan)}), "bad reply: actions with NaN or Inf"),
        (pack({"actions": np.ones((4, 2))}), "bad reply: no actions of 3 numbers"),
        (pack({"actions": np.ones(3)}), "bad reply: no actions of 3 numbers"),
        (pack({"actions": "left"}), "bad reply: no actions of 3 numbers"),
        (pack({}), "bad reply: no actions of 3 numbers"),
        (b"\xc1", "bad reply: no msgpack of this protocol"),
        ("busy: come back later", "busy: come back later"),
    ],
)
def test_a_reply_that_no_robot_can_run_is_not_run(reply, said):
    good = np.arange(12, dtype=np.float32).reshape(4, 3)
    replies = (pack({"actions": good}), reply, pack({"actions": -good}))
    with (
        pretender(describe(served.policy()), *replies) as address,
        PolicyClient(address, timeout=served.PATIENT) as client,
    ):
        got = [client.act(frames(1)[0]), client.act(frames(1)[0])]
        assert (client.status, client.reason[: len(said)]) == ("plan", said)
        got.append(client.act(frames(1)[0]))
        assert (client.status, client.reason) == ("fresh", "")
    np.testing.assert_array_equal(got, [good[0], good[1], -good[0]])


def test_another_kind_of_server():
    with pretender({"policy": "pi0"}) as address, pytest.raises(ConnectionLostError, match="is not `mgp serve`"):
        PolicyClient(address)


def test_no_server():
    with pytest.raises(ConnectionLostError, match=r"no policy server at ws://127\.0\.0\.1:9"):
        PolicyClient("127.0.0.1:9", patience=1.0)


def test_a_wrong_key():
    with serving(key=served.KEY) as server:
        with pytest.raises(ConnectionLostError, match="401"):
            PolicyClient(served.address(server), "x" * 20)
        PolicyClient(served.address(server), served.KEY).close()


def test_a_server_killed_in_mid_episode():
    """The robot is held within a control period, until a server is there again and a new episode is asked for.

    Each `act` keeps to its timeout. The margin is what a busy machine may keep a thread waiting, and yet a quarter of
    the seconds for which the client would wait if it held to any other of its times, all of which are `PATIENT` here.
    """
    period, margin = 0.5, served.PATIENT / 4
    with served.command(served.run()) as (process, address):
        client = PolicyClient(address, timeout=served.PATIENT, patience=served.PATIENT, lost_after=served.PATIENT)
        client.reset()
        last = [client.act(frame) for frame in frames(6)][-1]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        client.timeout = period
        took = []
        for frame in frames(5, 1):
            begin = time.monotonic()
            action = client.act(frame)
            took.append(time.monotonic() - begin)
            np.testing.assert_array_equal(action, held(last))
            assert client.status == "hold"
        assert max(took) < period + margin
        assert client.reason.startswith("lost: ")
        client.patience = 1.0
        with pytest.raises(ConnectionLostError, match="no policy server at"):
            client.reset()
    assert client.counts == {"fresh": 6, "plan": 0, "hold": 5}
    client.close()


def test_a_server_that_hangs():
    """It is stopped, not killed: the connection stands, and nothing comes."""
    period = 0.1
    with (
        served.command(served.run()) as (process, address),
        PolicyClient(address, timeout=served.PATIENT, bridge=2, lost_after=2.0) as client,
    ):
        for frame in frames(4):
            client.act(frame)
        os.kill(process.pid, signal.SIGSTOP)
        client.timeout = period
        seen, took = [], []
        for frame in frames(4, 1):
            begin = time.monotonic()
            client.act(frame)
            seen.append(client.status)
            took.append(time.monotonic() - begin)
        assert np.median(took) < period + 0.2
        assert seen == ["plan", "plan", "hold", "hold"]
        assert served.eventually(lambda: client.lost == "no answer in time")
        client.act(frames(1)[0])
        assert (client.status, client.reason) == ("hold", "lost: no answer in time")
        os.kill(process.pid, signal.SIGCONT)
        client.reset()
        client.timeout = served.PATIENT
        client.act(frames(1)[0])
        assert client.status == "fresh"
