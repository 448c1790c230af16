"""The stock client of openpi, unchanged: as it is on PyPI, installed by `make setup`."""

from __future__ import annotations

import numpy as np
import pytest
import served
from served import frames, serving
from websockets.exceptions import InvalidStatus

pytest.importorskip(
    "openpi_client", reason="openpi-client is not installed: `make setup` does it, without its numpy < 2"
)
from openpi_client.action_chunk_broker import ActionChunkBroker
from openpi_client.websocket_client_policy import WebsocketClientPolicy


@pytest.mark.parametrize("horizon", ["short", "long"])
def test_chunk_by_chunk(horizon):
    """As its examples do it: a chunk is run to its end, then the next observation is sent."""
    policy, shown = served.policy(horizon), frames(12)
    with serving(policy) as server:
        client = WebsocketClientPolicy("127.0.0.1", server.port)
        said = client.get_server_metadata()
        assert said["observations"] == {"state": [7]}
        broker = ActionChunkBroker(client, action_horizon=said["action_horizon"])
        got = [broker.infer(frame)["actions"] for frame in shown]
        client._ws.close()
    seen = [frame if step % 4 == 0 else None for step, frame in enumerate(shown)]
    np.testing.assert_array_equal(got, served.acted(policy, seen))


@pytest.mark.parametrize("horizon", ["short", "long"])
def test_step_by_step(horizon):
    """Said in the address: then it acts as `policy.act` does, with every frame seen."""
    policy, shown = served.policy(horizon), frames(12)
    with serving(policy) as server:
        client = WebsocketClientPolicy(f"ws://127.0.0.1:{server.port}/?steps=1&seed=2")
        got = [client.infer(frame)["actions"][0] for frame in shown]
        client.reset()  # says nothing to the server
        client._ws.close()
    np.testing.assert_array_equal(got, served.acted(policy, shown, seed=2))


def test_what_comes_with_the_actions():
    with serving() as server:
        client = WebsocketClientPolicy("127.0.0.1", server.port)
        first, second = (client.infer({**frame, "prompt": "go on", "gain": np.float32(2)}) for frame in frames(2))
        client._ws.close()
    assert first["actions"].shape == (4, 3)
    assert first["actions"].dtype == np.float32
    assert first["server_timing"]["infer_ms"] > 0
    assert second["server_timing"]["prev_total_ms"] > first["server_timing"]["infer_ms"]


def test_what_it_is_told_when_something_is_wrong():
    with serving() as server:
        client = WebsocketClientPolicy("127.0.0.1", server.port)
        with pytest.raises(RuntimeError, match="bad-observation: 'state' contains NaN or Inf"):
            client.infer({"state": np.full(7, np.nan)})
        assert client.infer(frames(1)[0])["actions"].shape == (4, 3), "and it may go on"
        client._ws.close()


def test_its_key():
    with serving(key=served.KEY) as server:
        with pytest.raises(InvalidStatus, match="401"):
            WebsocketClientPolicy("127.0.0.1", server.port)
        client = WebsocketClientPolicy("127.0.0.1", server.port, api_key=served.KEY)
        assert client.infer(frames(1)[0])["actions"].shape == (4, 3)
        client._ws.close()
