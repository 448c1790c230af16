"""One client, from its first message to its last: read, check, plan if due, reply. Clients know nothing of each other.

Each connection is a task of its own and waits for nobody else's: a slow client is slow for itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from mgp.policies.base import Policy
from mgp.runtime.inference import Inference
from mgp.runtime.limits import Bucket, ClientLimits
from mgp.runtime.measures import GUARDS, Measures
from mgp.runtime.observations import admit
from mgp.runtime.refusals import DeadlineError, refusal
from mgp.runtime.request import Address, Request, parse_request
from mgp.runtime.session import Session
from mgp.runtime.wire import pack, unpack

log = logging.getLogger("mgp.runtime")

GOING_AWAY, TOO_BIG, FAILED = 1001, 1009, 1011  # close codes of RFC 6455


@dataclass(frozen=True)
class Shared:
    """What all connections of a server have in common."""

    policy: Policy
    inference: Inference
    measures: Measures
    limits: ClientLimits
    metadata: dict[str, Any]


class Connection:
    def __init__(self, socket: ServerConnection, shared: Shared, address: Address):
        self.socket, self.shared = socket, shared
        self.session = Session(address, shared.limits.max_age)
        self.bucket = Bucket(shared.limits.rate)
        self.busy = False  # a request is being dealt with
        self.stopping = False  # after which there is no other
        self.total = 0.0  # milliseconds of the last request
        self.logged: set[str] = set()
        self.closing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        try:
            await self._send(pack(self.shared.metadata))
            while not self.stopping:
                message = await self.socket.recv()
                self.busy = True
                if not await self._deal_with(message):
                    return
                self.busy = False
            await self.socket.close(GOING_AWAY, "the server shuts down")
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code == TOO_BIG:
                self.shared.measures.refusals.add("too-large")
        except TimeoutError:
            log.warning("%s takes no replies: dropped", self.name)
            self.socket.transport.abort()

    def stop(self) -> None:
        """Close the connection, after the reply that is under way."""
        self.stopping = True
        if not self.busy:
            self.closing = asyncio.create_task(self.socket.close(GOING_AWAY, "the server shuts down"))

    @property
    def name(self) -> str:
        return f"client {self.socket.id.hex[:8]}"

    async def _deal_with(self, message: bytes | str) -> bool:
        """False: it was refused for good."""
        arrived, measures = time.monotonic(), self.shared.measures
        measures.requests.add()
        delay = self.bucket.delay(arrived)
        if delay:
            measures.throttled.add()
            await asyncio.sleep(delay)
        try:
            reply = await self._answer(message, arrived)
        except Exception as error:
            refused = refusal(error)
            measures.refusals.add(refused.name)
            self._log(refused.name, refused.text, error)
            await self._send(refused.text)
            if refused.final:
                await self.socket.close(FAILED, refused.name)
            return not refused.final
        await self._send(reply)
        measures.request_seconds.add(time.monotonic() - arrived)
        return True

    async def _answer(self, message: bytes | str, arrived: float) -> bytes:
        shared, session = self.shared, self.session
        request = parse_request(unpack(message, shared.limits.message))
        # what is refused here leaves episode, frames and plan as they were
        frame = None if request.missing else admit(shared.policy, request.observation)
        if session.begins(request):
            session.begin(await shared.inference.begin(session.seed(request)), request)
            shared.measures.episodes.add()
        looked = session.follow(request, frame)
        if looked in GUARDS:
            shared.measures.guards.add(looked)
        until = float("inf") if request.deadline is None else arrived + request.deadline / 1000
        begin = time.monotonic()
        planned = session.due and await self._planned(until)
        thinking, actions = time.monotonic() - begin, session.rest(request.beyond)
        if not len(actions):
            raise DeadlineError(f"{request.deadline} ms are over, and of the plan in hand no action is left: hold")
        late = time.monotonic() > until
        if late:
            shared.measures.misses.add()
        return self._reply(actions, request, thinking, arrived, {"looked": looked, "planned": planned, "late": late})

    async def _planned(self, until: float) -> bool:
        assert self.session.driver is not None
        planned = await self.shared.inference.plan(self.session.driver, until)
        if not planned and self.session.driver.chunk is None:
            raise DeadlineError("there was no time for the first plan of the episode: ask again")
        return planned

    def _reply(
        self, actions: np.ndarray, request: Request, thinking: float, arrived: float, said: dict[str, Any]
    ) -> bytes:
        timing = {"infer_ms": 1000 * thinking, "prev_total_ms": self.total}
        self.total = 1000 * (time.monotonic() - arrived)
        session = self.session
        mgp = {"episode": session.episode, "step": session.step, **said}
        return pack({"actions": actions, "server_timing": timing, "mgp": mgp})

    async def _send(self, message: bytes | str) -> None:
        async with asyncio.timeout(self.shared.limits.patience):
            await self.socket.send(message)

    def _log(self, name: str, text: str, error: Exception) -> None:
        """Each kind once a client: a log must not be filled from outside. A traceback stays here."""
        if name not in self.logged:
            self.logged.add(name)
            log.warning("%s refused: %s", self.name, text, exc_info=error if name == "internal" else None)
