"""`mgp serve` as a user starts and stops it."""

from __future__ import annotations

import fcntl
import signal
import subprocess

import numpy as np
import pytest
import served
from served import frames
from websockets.sync.client import connect

from mgp.cli import main
from mgp.client import PolicyClient
from mgp.commands.serve import parse


def test_it_serves_until_it_is_told_to_stop():
    with served.command(served.run("long"), "--sampling.execution-horizon", "8") as (process, address):
        assert served.get(address, "/healthz") == (200, "OK\n")
        with PolicyClient(address, timeout=served.PATIENT) as client:
            assert client.metadata["action_horizon"] == 8
            got = [client.act(frame) for frame in frames(20)]
            expected = served.acted(served.policy("long").with_sampling(execution_horizon=8), frames(20))
            np.testing.assert_array_equal(got, expected)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=served.PATIENT) == 0
            client.act(frames(1)[0])
            assert (client.status, client.reason) == ("hold", client.reason)
            assert "the server shuts down" in client.reason
        rest = process.stdout.read()
    assert "looks at state (7,); replies hold 8 actions of 3 numbers" in rest
    assert "1 plans at once, without a key" in rest
    assert rest.rstrip().endswith("stopped")
    assert "Traceback" not in rest


def test_who_says_nothing_of_a_host_is_reached_from_this_machine_alone(monkeypatch, capsys):
    made = []
    monkeypatch.setattr("mgp.runtime.server.run_server", lambda policy, config, ready: made.append(config))
    main(["serve", str(served.run())])
    main(["serve", str(served.run()), "--host", "::1"])
    assert [config.host for config in made] == ["127.0.0.1", "::1"]


def test_a_log_that_nobody_reads_holds_nobody_up():
    """A pipe of 4096 bytes, which is full after twenty clients with bad messages."""
    with served.command(served.run()) as (process, address):
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        for _ in range(60):
            with connect(f"ws://{address}", proxy=None) as socket:
                socket.recv(timeout=served.PATIENT)
                assert "bad-message" in served.ask(socket, b"nonsense")
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):  # nor is what it says last
            process.wait(timeout=0.5)
        rest = process.stdout.read()
        assert process.wait(timeout=served.PATIENT) == 0
    assert rest.count("bad-message") == 60
    assert rest.rstrip().endswith("stopped")


def test_it_asks_for_the_key_of_its_environment(tmp_path):
    with served.command(served.run(), MGP_API_KEY=served.KEY) as (_, address):
        assert served.get(address, "/metrics")[0] == 401
        with PolicyClient(address, served.KEY, timeout=served.PATIENT) as client:
            assert client.act(frames(1)[0]).shape == (3,)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "host = '0.0.0.0' can be reached from other machines, and there is no key"),
        (["--api-key-file", "/nowhere/key"], "write the key into it"),
        (["--max-rate", "0"], "ClientLimits.rate = 0.0: must be above 0"),
        (["--port", "70000"], "port = 70000 below 65536"),
        (["--batch", "0"], "batch = 0"),
        (["--sampling.execution-horizon", "999"], "execution_horizon = 999"),
        (["--device", "tpu9"], "device = 'tpu9' is none"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_served(words, said, capsys, monkeypatch):
    monkeypatch.delenv("MGP_API_KEY", raising=False)
    with pytest.raises(SystemExit) as caught:
        main(["serve", str(served.run()), *words])
    assert caught.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_folder_without_a_run_is_named(tmp_path, capsys):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(SystemExit):
            main(["serve", str(folder)])
        assert str(folder) in " ".join(capsys.readouterr().err.split())


def test_a_checkpoint_can_be_named_too():
    (checkpoint,) = (served.run() / "checkpoints").glob("*policy*")
    args, policy = parse([str(checkpoint), "--port", "9000"])
    assert (args.port, args.sampling, policy.label) == (9000, policy.sampling, "MGP-Short")
