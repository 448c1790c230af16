"""A client's end of a connection, in a thread of its own: who asks never waits longer than he says.

One question at a time. A server that does not answer within the seconds it is given, or whose connection breaks, is
lost; a new link has to be made then.
"""

from __future__ import annotations

import queue
import threading
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from mgp.errors import ConnectionLostError, MessageError
from mgp.runtime.wire import unpack

REPLY = 64 * 2**20  # bytes of a reply at most


class Link:
    def __init__(self, address: str, key: str | None = None, patience: float = 10.0):
        """`address`: "127.0.0.1:8000" or "ws://..."; `patience`: seconds for the connection to be made."""
        self.address = address if "://" in address else f"ws://{address}"
        self.lost: str | None = None  # why there is nobody any more
        self.waiting = False  # a question has no answer yet
        headers = {"Authorization": f"Api-Key {key}"} if key else None
        try:
            self._socket = connect(
                self.address,
                additional_headers=headers,
                compression=None,
                open_timeout=patience,
                close_timeout=1.0,
                max_size=REPLY,
                proxy=None,
            )
            self.metadata: dict[str, Any] = unpack(self._socket.recv(timeout=patience))
        except (WebSocketException, MessageError, OSError) as error:  # a timeout is an OSError
            raise ConnectionLostError(f"no policy server at {self.address}: {_reason(error)}") from error
        self._questions: queue.SimpleQueue[tuple[bytes, float] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="mgp-client", daemon=True)
        self._thread.start()

    def ask(self, message: bytes, lost_after: float) -> None:
        assert not self.waiting, "one question at a time"
        self.waiting = True
        self._questions.put((message, lost_after))

    def answer(self, timeout: float) -> bytes | str | None:
        """The answer, a text if it was refused; None if it is not there yet, or never will be (`lost`)."""
        if not self.waiting:
            return None
        try:
            answer = self._answers.get(timeout=timeout) if timeout > 0 else self._answers.get_nowait()
        except queue.Empty:
            return None
        self.waiting = False
        return answer

    def close(self) -> None:
        self.lost = self.lost or "closed"
        self._questions.put(None)
        self._socket.close()

    def _run(self) -> None:
        try:
            while (question := self._questions.get()) is not None:
                message, lost_after = question
                self._socket.send(message)
                self._answers.put(self._socket.recv(timeout=lost_after))
        except (WebSocketException, OSError) as error:
            self.lost = self.lost or _reason(error)
            self._answers.put(None)
            self._socket.close()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error)[:200] or type(error).__name__
