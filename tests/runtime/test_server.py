"""A policy behind a socket: the same actions, whoever else is connected and whatever they send."""

from __future__ import annotations

import socket as tcp
import threading
import time

import msgpack
import numpy as np
import pytest
import served
from hostile import HOSTILE
from served import ask, frames, raw, serving
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import small
from mgp.client import PolicyClient
from mgp.errors import ConfigError
from mgp.policies.driver import Driver
from mgp.runtime.limits import ClientLimits
from mgp.runtime.server import ServerConfig, in_background
from mgp.runtime.wire import pack


class Gate:
    """Plans wait before it while it is closed."""

    def __init__(self, policy, monkeypatch):
        self.open, self.waiting, self.plan = threading.Event(), 0, policy.plan
        self.open.set()
        monkeypatch.setattr(policy, "plan", self)

    def __call__(self, *arguments):
        self.waiting += 1
        assert self.open.wait(served.PATIENT)
        self.waiting -= 1
        return self.plan(*arguments)


@pytest.fixture
def gate(monkeypatch):
    return Gate(served.policy(), monkeypatch)


@pytest.mark.parametrize("horizon", ["short", "long"])
def test_over_the_wire_as_without_one(horizon):
    policy, shown = served.policy(horizon), [*frames(9), None, *frames(16, 1)]
    with serving(policy) as server, PolicyClient(served.address(server), timeout=served.PATIENT) as client:
        for seed in (0, 5):
            client.reset(seed)
            got = np.stack([client.act(frame) for frame in shown])
            np.testing.assert_array_equal(got, served.acted(policy, shown, seed))
    assert client.counts == {"fresh": 52, "plan": 0, "hold": 0}


def test_the_server_says_first_what_it_wants():
    with serving() as server, PolicyClient(served.address(server)) as client:
        said = client.metadata
    assert (said["method"], said["observations"], said["action_horizon"]) == ("MGP-Short", {"state": [7]}, 4)
    assert (said["hold"], said["action_width"], said["history"]) == ([0.0, 0.0, None], 3, 2)


def test_who_says_nothing_of_a_host_is_reached_from_this_machine_alone():
    with serving() as server:
        assert {one.getsockname()[0] for one in server.server.sockets} == {"127.0.0.1"}


def test_compression_is_declined():
    """Stock clients offer it. The protocol has none, and nothing small must unfold to something large."""
    with serving() as server, connect(f"ws://{served.address(server)}", proxy=None) as socket:
        assert "permessage-deflate" in socket.request.headers["Sec-WebSocket-Extensions"]
        assert "Sec-WebSocket-Extensions" not in socket.response.headers
        assert socket.protocol.extensions == []
        socket.recv(timeout=served.PATIENT)
        assert len(ask(socket, frames(1)[0])["actions"]) == 4


def test_two_clients_do_not_know_of_each_other():
    shown = [frames(12, seed) for seed in (1, 2)]
    with serving(batch=1) as server, raw(server) as one, raw(server, "?seed=4") as other:
        replies: list[list[np.ndarray]] = [[], []]
        for step in range(12):
            for mine, socket in enumerate((one, other)):
                reply = ask(socket, {**shown[mine][step], "mgp": {"step": step}})
                replies[mine].append(reply["actions"][0])
                if mine == 0 and step % 3 == 0:
                    assert ask(one, {"state": np.full(7, np.nan)}).startswith("bad-observation")
    np.testing.assert_array_equal(replies[0], served.acted(served.policy(), shown[0], 0))
    np.testing.assert_array_equal(replies[1], served.acted(served.policy(), shown[1], 4))


def test_plans_that_wait_together_are_made_together(gate):
    shown = frames(8)
    with serving() as server:
        server.inference.batch = 8  # whether it pays on this machine or not
        gate.open.clear()
        sockets = [connect(f"ws://{served.address(server)}", proxy=None) for _ in shown]
        for socket, frame in zip(sockets, shown, strict=True):
            socket.recv()
            socket.send(pack(frame))
            assert served.eventually(lambda: gate.waiting == 1)  # the first; the others queue behind it
        assert served.eventually(lambda: server.measures.episodes.total == 1 and server.inference.jobs.qsize() == 7)
        gate.open.set()
        got = [served.unpack(socket.recv(timeout=served.PATIENT))["actions"] for socket in sockets]
        for socket in sockets:
            socket.close()
        assert server.measures.plans.total == 8
        assert server.measures.batch.count < 8
    for actions, frame in zip(got, shown, strict=True):
        expected = served.acted(served.policy(), [frame, None, None, None])
        np.testing.assert_allclose(actions, expected, rtol=1e-4, atol=1e-5)


def test_a_new_connection_is_a_new_episode_and_so_is_a_reset():
    policy, shown = served.policy("long"), frames(8)
    first = served.acted(policy, shown)
    with serving(policy) as server:
        for _ in range(2):
            with raw(server, "?steps=1") as socket:
                got = [ask(socket, frame)["actions"][0] for frame in shown]
                np.testing.assert_array_equal(got, first)
                again = [ask(socket, {**frame, "mgp": {"reset": step == 0}}) for step, frame in enumerate(shown)]
                np.testing.assert_array_equal([reply["actions"][0] for reply in again], first)
                named = [ask(socket, {**frame, "mgp": {"episode": "third"}}) for frame in shown]
                np.testing.assert_array_equal([reply["actions"][0] for reply in named], first)
                assert {reply["mgp"]["episode"] for reply in again} == {1}
                assert [reply["mgp"]["step"] for reply in named] == list(range(8))
                assert {reply["mgp"]["episode"] for reply in named} == {"third"}
        assert server.measures.episodes.total == 6


@pytest.mark.parametrize("horizon", ["short", "long"])
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"state": np.full(7, np.nan, np.float32)}, "bad-observation: 'state' contains NaN or Inf"),
        ({"state": np.zeros(3, np.float32)}, "bad-observation: 'state' has shape (3,), the policy was trained on (7,)"),
        ({"cloud": np.zeros((4, 3))}, "bad-observation: observation has no 'state'"),
        ({"state": [0.0] * 7}, "bad-request: 'state' is a list: send an array"),
    ],
)
def test_a_bad_observation_is_refused_by_name_and_the_plan_stands(horizon, bad, said):
    refused_in_mid_plan(served.policy(horizon), frames(10), bad, said)


@pytest.mark.parametrize("horizon", ["short", "long"])
def test_an_empty_cloud_is_refused_by_name_and_the_plan_stands(horizon):
    policy = small.policy(small.tiny(horizon, "cloud"))
    shown = [{key: value[0, 0] for key, value in small.frames(policy.config, 1, 1, seed).items()} for seed in range(10)]
    bad = {**shown[0], "cloud": np.zeros((0, 3), np.float32)}
    said = "bad-observation: 'cloud' has shape (0, 3), the policy was trained on (16, 3)"
    refused_in_mid_plan(policy, shown, bad, said)


def refused_in_mid_plan(policy, shown, bad, said) -> None:
    """In place of two of the frames that are shown comes a bad one."""
    with serving(policy) as server, raw(server) as socket:
        got = []
        for step, frame in enumerate(shown):
            if step in (2, 4):  # in the middle of a plan, and where a new one is due
                assert ask(socket, {**bad, "mgp": {"step": step}}).startswith(said)
                continue
            got.append(ask(socket, {**frame, "mgp": {"step": step}})["actions"][0])
        assert server.measures.refusals.total == 2
    driver, expected = Driver(policy, [0]), []
    for step, frame in enumerate(shown):  # what a driver does that hears nothing of the bad steps
        if step in (2, 4):
            driver.miss(0)
            if not driver.due:
                driver.take()
            continue
        expected.append(driver.act(frame))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ["objects", "a bomb as objects", "too few bytes", "deep lists", "many lists", "JSON"])
def test_hostile_messages_close_their_own_connection_only(name):
    with serving() as server, raw(server) as good:
        with raw(server) as hostile:
            said = ask(hostile, HOSTILE[name][0])
            assert said.startswith("bad-message: ")
            assert len(said) < 330
            assert "Traceback" not in said
            with pytest.raises(ConnectionClosed) as closed:
                hostile.recv(timeout=served.PATIENT)
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1011, "bad-message")
        assert len(ask(good, frames(1)[0])["actions"]) == 4


def test_a_text_frame_is_refused():
    with serving() as server, raw(server) as socket:
        assert ask(socket, "hello").startswith("bad-message: a text where a binary msgpack message belongs")


def test_a_message_too_large_is_not_read():
    with serving(limits=ClientLimits(message=4096)) as server, raw(server) as socket:
        assert isinstance(ask(socket, {**frames(1)[0], "more": np.zeros(400)}), dict)
        with pytest.raises(ConnectionClosed) as closed:
            ask(socket, {"state": np.zeros(10_000)})
        assert closed.value.rcvd.code == 1009
        assert served.eventually(lambda: server.measures.refusals["too-large"] == 1)


def test_a_port_that_is_shouted_at_goes_on():
    with serving(limits=ClientLimits(patience=0.3)) as server:
        for shout in (b"\x00" * 100, b"GET / HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HT"):
            with tcp.create_connection(("127.0.0.1", server.port)) as stray:
                stray.sendall(shout)
                stray.settimeout(served.PATIENT)
                while stray.recv(4096):  # until the server has had enough, of half a request too
                    pass
        with raw(server) as socket:
            assert isinstance(ask(socket, frames(1)[0]), dict)


def test_a_client_that_never_reads_or_stops_in_mid_message_keeps_nobody_waiting():
    wide = {**frames(1)[0], "mgp": {"beyond": 1000}}
    with serving(limits=ClientLimits(rate=5000, patience=0.5)) as server, raw(server) as good:
        slow = connect(f"ws://{served.address(server)}", proxy=None, max_queue=1)
        flood = threading.Thread(target=_flood, args=(slow, pack(wide)), daemon=True)
        flood.start()
        half = tcp.create_connection(("127.0.0.1", server.port))
        half.sendall(_handshake(server.port) + b"\x82\xfe\xff\xff")  # a frame that says it is long
        for frame in frames(20):
            assert isinstance(ask(good, frame), dict)
        slow.socket.shutdown(tcp.SHUT_RDWR)
        half.close()
        flood.join()
        assert served.eventually(lambda: len(server.connections) == 1)


def _flood(socket, message: bytes) -> None:
    try:
        for _ in range(2000):
            socket.send(message)
    except (ConnectionClosed, OSError):
        pass


def _handshake(port: int) -> bytes:
    return (
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def test_only_who_has_the_key_comes_in():
    with serving(key=served.KEY) as server:
        for headers in ({}, {"Authorization": "Api-Key wrong"}, {"Authorization": f"Bearer {served.KEY}"}):
            with pytest.raises(InvalidStatus) as refused, raw(server, **headers):
                pass
            assert refused.value.response.status_code == 401
        with raw(server, Authorization=f"Api-Key {served.KEY}") as socket:
            assert isinstance(ask(socket, frames(1)[0]), dict)
        assert served.get(served.address(server), "/metrics")[0] == 401
        assert served.get(served.address(server), "/metrics", served.KEY)[0] == 200
        assert served.get(served.address(server), "/healthz") == (200, "OK\n")
        assert server.measures.turned_away["key"] == 4


def test_a_page_in_a_browser_does_not_come_in():
    with serving() as server:
        with pytest.raises(InvalidStatus) as refused, raw(server, Origin="https://example.org"):
            pass
        assert refused.value.response.status_code == 403


def test_more_clients_than_allowed_are_told_so():
    with serving(limits=ClientLimits(clients=1)) as server, raw(server):
        with pytest.raises(InvalidStatus) as refused, raw(server):
            pass
        assert refused.value.response.status_code == 503
        assert b"1 clients are connected" in refused.value.response.body


def test_addresses_that_do_not_exist():
    with serving() as server:
        assert served.get(served.address(server), "/secret")[0] == 404
        assert served.get(served.address(server), "/?steps=0") == (
            400,
            "steps = '0' must be a whole number from 1 on\n",
        )


def test_a_client_above_its_rate_is_slowed_down():
    with serving(limits=ClientLimits(rate=10)) as server, raw(server, "?steps=1") as socket:
        begin = time.monotonic()
        for frame in frames(8):  # two and a half may come at once, the others take a tenth of a second each
            socket.send(pack(frame))
        assert all(isinstance(socket.recv(timeout=served.PATIENT), bytes) for _ in range(8)), "none is refused"
        assert time.monotonic() - begin > 0.5
        assert server.measures.throttled.total > 0


def test_while_one_plan_is_made_everybody_else_is_answered(gate):
    with serving() as server, raw(server, "?steps=1") as busy, raw(server, "?steps=1") as other:
        assert len(ask(other, frames(1)[0])["actions"]) == 4
        gate.open.clear()
        busy.send(pack(frames(1)[0]))
        assert served.eventually(lambda: gate.waiting == 1)
        assert len(ask(other, frames(1)[0])["actions"]) == 3, "no plan is due"
        assert served.get(served.address(server), "/healthz") == (200, "OK\n")
        gate.open.set()
        assert isinstance(busy.recv(timeout=served.PATIENT), bytes)


def test_who_has_no_time_is_served_from_the_plan_in_hand(gate):
    policy, (first, second) = served.policy(), frames(2)
    with serving() as server, raw(server) as busy, raw(server) as hasty:
        reply = ask(hasty, {**first, "mgp": {"step": 0, "beyond": 3}})
        assert (reply["mgp"]["planned"], reply["mgp"]["late"], len(reply["actions"])) == (True, False, 7)
        gate.open.clear()
        busy.send(pack(first))
        assert served.eventually(lambda: gate.waiting == 1)
        words = {"step": 4, "executed": 4, "beyond": 3, "deadline": 1.0}
        hasty.send(pack({**second, "mgp": words}))
        time.sleep(0.05)
        gate.open.set()
        late = served.unpack(hasty.recv(timeout=served.PATIENT))
        assert (late["mgp"]["planned"], late["mgp"]["late"]) == (False, True)
        np.testing.assert_array_equal(late["actions"], reply["actions"][4:])
        assert server.measures.misses.total == 1
        busy.recv(timeout=served.PATIENT)
        gate.open.clear()
        busy.send(pack(first))
        assert served.eventually(lambda: gate.waiting == 1)
        hasty.send(pack({**second, "mgp": words | {"step": 8, "executed": 3}}))
        time.sleep(0.05)
        gate.open.set()
        assert hasty.recv(timeout=served.PATIENT).startswith("deadline: 1.0 ms are over, and of the plan")
    assert policy.execution_horizon == 4


def test_a_plan_that_is_no_number_is_not_sent(monkeypatch):
    policy, (first, second) = served.policy(), frames(2)
    with serving() as server, raw(server) as socket:
        reply = ask(socket, {**first, "mgp": {"step": 0, "beyond": 2}})
        right = policy.plan
        broken = lambda *arguments: right(*arguments)._replace(actions=np.full((1, 8, 3), np.nan))  # noqa: E731
        monkeypatch.setattr(policy, "plan", broken)
        said = ask(socket, {**second, "mgp": {"step": 4}})
        assert said == "bad-plan: the policy planned NaN or Inf; the plan before it stands"
        session = next(iter(server.connections)).session
        np.testing.assert_array_equal(session.driver.chunk.actions[0, :6], reply["actions"])
        monkeypatch.setattr(policy, "plan", right)
        assert np.isfinite(ask(socket, {**second, "mgp": {"step": 5}})["actions"]).all()


def test_a_failure_inside_tells_nothing_of_it(monkeypatch, caplog):
    def fail(*arguments):
        raise RuntimeError("the password is 1234")

    with serving() as server, raw(server) as socket:
        monkeypatch.setattr(served.policy(), "plan", fail)
        said = ask(socket, frames(1)[0])
        assert said == "internal: the server failed; its log says why"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=served.PATIENT)
        assert closed.value.rcvd.code == 1011
        assert "1234" in caplog.text, "it is in the log"
        monkeypatch.undo()
        with raw(server) as another:
            assert isinstance(ask(another, frames(1)[0]), dict)


def test_metrics_tell_what_happened():
    parser = pytest.importorskip("prometheus_client.parser")
    shown = frames(9)
    with serving() as server, raw(server) as socket:
        for step, frame in enumerate(shown[:6]):
            ask(socket, {**frame, "mgp": {"step": step, "time": float(step)}})
        ask(socket, {**shown[6], "mgp": {"step": 5}})  # twice
        ask(socket, {"mgp": {"step": 6, "missing": True}})
        ask(socket, {"state": np.full(7, np.inf), "mgp": {"step": 7}})
        ask(socket, {**shown[8], "mgp": {"reset": True}})
        status, text = served.get(served.address(server), "/metrics")
    assert status == 200
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert values["mgp_requests_total",] == 10
    assert values["mgp_plans_total",] == values["mgp_plan_seconds_count",] == 3
    assert values["mgp_episodes_total",] == 2
    assert values["mgp_clients",] == 1
    assert values["mgp_refusals_total", "bad-observation"] == 1
    assert values["mgp_guard_events_total", "stale"] == values["mgp_guard_events_total", "missing"] == 1
    assert values["mgp_request_seconds_count",] == values["mgp_request_seconds_bucket", "+Inf"] == 9
    assert any(name[0] == "mgp_info" and "MGP-Short" in name for name in values)


def test_a_server_that_is_stopped_finishes_its_replies(gate):
    with serving() as server, raw(server) as idle:
        busy = connect(f"ws://{served.address(server)}", proxy=None)
        busy.recv()
        gate.open.clear()
        busy.send(pack(frames(1)[0]))
        assert served.eventually(lambda: gate.waiting == 1)
        loop = server.inference.loop
        loop.call_soon_threadsafe(lambda: loop.create_task(server.stop()))
        with pytest.raises(ConnectionClosed) as closed:
            idle.recv(timeout=served.PATIENT)
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1001, "the server shuts down")
        gate.open.set()
        assert len(served.unpack(busy.recv(timeout=served.PATIENT))["actions"]) == 4
        with pytest.raises(ConnectionClosed) as closed:
            busy.recv(timeout=served.PATIENT)
        assert closed.value.rcvd.code == 1001
        with pytest.raises(OSError, match="refused"):
            connect(f"ws://{served.address(server)}", proxy=None)


def test_a_server_that_is_stopped_does_not_wait_for_ever(gate):
    begin = time.monotonic()
    with serving(grace=0.3) as server:
        busy = connect(f"ws://{served.address(server)}", proxy=None)
        busy.recv()
        gate.open.clear()
        busy.send(pack(frames(1)[0]))
        assert served.eventually(lambda: gate.waiting == 1)
    assert time.monotonic() - begin < served.PATIENT / 2, "the gate would have opened later"
    with pytest.raises(ConnectionClosed):
        busy.recv(timeout=served.PATIENT)
    gate.open.set()
    server.inference.thread.join(served.PATIENT)
    assert not server.inference.thread.is_alive()


def test_a_port_that_is_taken_is_named():
    with (
        serving() as server,
        pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{server.port}"),
        in_background(served.policy(), ServerConfig(port=server.port)),
    ):
        pass


def test_msgpack_of_other_languages_is_taken():
    """Integers and floats of any width, as a client in C++ may write them."""
    state = {b"__ndarray__": True, b"data": np.arange(7, dtype=">f8").tobytes(), b"dtype": ">f8", b"shape": [7]}
    with serving() as server, raw(server) as socket:
        got = ask(socket, msgpack.packb({"state": state, "gain": 3}, use_single_float=True))
        expected = ask(socket, {"state": np.arange(7, dtype=np.float32), "mgp": {"reset": True}})
    np.testing.assert_array_equal(got["actions"], expected["actions"])
