"""A policy behind a WebSocket: openpi's protocol, so that its clients work as they are.

One event loop reads and writes, one thread plans (`inference.py`), one task serves each client (`connection.py`).
`GET /healthz` says OK, `GET /metrics` tells Prometheus.
"""

from __future__ import annotations

import asyncio
import http
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from mgp.errors import ConfigError, RequestError
from mgp.policies.base import Policy
from mgp.runtime.access import allowed, check_access
from mgp.runtime.connection import Connection, Shared
from mgp.runtime.inference import Inference
from mgp.runtime.limits import ClientLimits
from mgp.runtime.measures import Measures
from mgp.runtime.metadata import describe
from mgp.runtime.request import parse_address

log = logging.getLogger("mgp.runtime")
_quiet = logging.getLogger("mgp.runtime.websockets")  # a traceback for each stray byte on the port, otherwise
_quiet.setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class ServerConfig:
    host: str = "127.0.0.1"
    port: int = 8000  # 0: any that is free
    key: str = field(default="", repr=False)
    limits: ClientLimits = field(default_factory=ClientLimits)
    batch: int = 8  # plans of several clients that are made at once, at most; fewer if it does not pay
    threads: int = 1  # of torch; more are slower for small networks
    grace: float = 5.0  # seconds for replies under way when the server is stopped

    def __post_init__(self) -> None:
        if self.batch < 1 or self.threads < 1 or self.grace < 0 or not 0 <= self.port < 65536:
            raise ConfigError(
                f"batch = {self.batch}, threads = {self.threads} must be at least 1, grace = {self.grace} not negative,"
                f" port = {self.port} below 65536"
            )
        check_access(self.host, self.key)


class PolicyServer:
    def __init__(self, policy: Policy, config: ServerConfig | None = None):
        self.config = config or ServerConfig()
        metadata = describe(policy)
        self.measures = Measures(metadata["method"], metadata["task"])
        self.inference = Inference(policy, self.measures, self.config.batch, self.config.threads)
        self.shared = Shared(policy, self.inference, self.measures, self.config.limits, metadata)
        self.connections: set[Connection] = set()
        self.stopping = False
        self.port = self.config.port

    async def start(self) -> None:
        """Returns when the policy is warm and the port is open."""
        await self.inference.start()
        config, limits = self.config, self.config.limits
        try:
            self.server: Server = await serve(
                self._connected,
                config.host,
                config.port,
                process_request=self._before,
                origins=[None],  # a page in somebody's browser names its origin, a robot does not
                compression=None,  # as the protocol has it; and nothing small can unfold to something large
                max_size=limits.message,
                max_queue=2,
                open_timeout=limits.patience,
                close_timeout=limits.patience,
                server_header=None,
                logger=_quiet,
            )
        except OSError as error:
            await self.inference.stop()
            raise ConfigError(
                f"cannot listen on {config.host}:{config.port} ({error.strerror}): choose another"
            ) from error
        self.port = next(iter(self.server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        """Take no new clients, finish the replies under way, say goodbye."""
        self.stopping = True
        self.server.close(close_connections=False)
        for connection in list(self.connections):
            connection.stop()
        try:
            async with asyncio.timeout(self.config.grace):
                await self.server.wait_closed()
            await self.inference.stop()
        except TimeoutError:
            log.warning("%d clients did not finish in %g s: dropped", len(self.connections), self.config.grace)
            for connection in list(self.connections):
                connection.socket.transport.abort()
            await self.inference.stop(wait=False)

    async def run(self, until: asyncio.Event, ready: Callable[[PolicyServer], None] = lambda server: None) -> None:
        await self.start()
        ready(self)
        await until.wait()
        await self.stop()

    async def _connected(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        connection = Connection(socket, self.shared, parse_address(urlsplit(socket.request.path).query))
        self.connections.add(connection)
        self.measures.connections.add()
        self.measures.clients.value = len(self.connections)
        try:
            await connection.run()
        except Exception:
            log.exception("%s: dropped", connection.name)
            raise
        finally:
            self.connections.discard(connection)
            self.measures.clients.value = len(self.connections)

    def _before(self, socket: ServerConnection, request: Request) -> Response | None:
        """Answer what is no WebSocket, and turn away who may not come in."""
        url = urlsplit(request.path)
        status = http.HTTPStatus
        if url.path == "/healthz":
            good = not self.stopping
            return socket.respond(status.OK if good else status.SERVICE_UNAVAILABLE, "OK\n" if good else "stopping\n")
        if not allowed(request.headers, self.config.key):
            return self._away(socket, "key", status.UNAUTHORIZED, "send the header `Authorization: Api-Key <key>`")
        if url.path == "/metrics":
            response = socket.respond(status.OK, self.measures.text())
            del response.headers["Content-Type"]
            response.headers["Content-Type"] = "text/plain; version=0.0.4; charset=utf-8"
            return response
        try:
            parse_address(url.query)
        except RequestError as error:
            return self._away(socket, "address", status.BAD_REQUEST, str(error))
        if url.path != "/":
            return self._away(socket, "address", status.NOT_FOUND, "here are /, /healthz and /metrics")
        if len(self.connections) >= self.config.limits.clients:
            full = f"{self.config.limits.clients} clients are connected, more are not served"
            return self._away(socket, "clients", status.SERVICE_UNAVAILABLE, full)
        return None

    def _away(self, socket: ServerConnection, why: str, status: http.HTTPStatus, text: str) -> Response:
        self.measures.turned_away.add(why)
        return socket.respond(status, text + "\n")


def run_server(
    policy: Policy, config: ServerConfig, ready: Callable[[PolicyServer], None] = lambda server: None
) -> None:
    """Serve until SIGINT or SIGTERM."""

    async def main() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
        await PolicyServer(policy, config).run(stop, ready)

    asyncio.run(main())


@contextmanager
def in_background(policy: Policy, config: ServerConfig | None = None) -> Iterator[PolicyServer]:
    """A server in a thread of this process, ready when the block begins and stopped when it ends."""
    server = PolicyServer(policy, config or ServerConfig(port=0))
    ready, stop, failed = threading.Event(), asyncio.Event(), []

    def work() -> None:
        try:
            asyncio.run(server.run(stop, lambda _: ready.set()))
        except Exception as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=work, name="mgp-server", daemon=True)
    thread.start()
    ready.wait()
    if failed:
        raise failed[0]
    try:
        yield server
    finally:
        server.inference.loop.call_soon_threadsafe(stop.set)
        thread.join()
