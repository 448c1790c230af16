"""What one client may cost: bytes, messages a second, seconds to take a reply."""

from __future__ import annotations

from dataclasses import dataclass

from mgp.config import positive
from mgp.runtime.wire import MESSAGE


@dataclass(frozen=True)
class ClientLimits:
    message: int = MESSAGE  # bytes of a message; a larger one closes the connection
    rate: float = 200.0  # messages a second from one client; those above wait, and so does the client
    clients: int = 32  # connections at a time; the next ones are told so
    patience: float = 5.0  # seconds for a client to take a reply, or to shake hands
    max_age: float = 1.0  # seconds; an older observation counts as missing, where the client says when it was taken

    def __post_init__(self) -> None:
        positive(self, "message", "rate", "clients", "patience", "max_age")


class Bucket:
    """Messages that may come at once, filled again at a rate: who is faster is told how long to wait."""

    def __init__(self, rate: float, burst: float | None = None):
        self.rate, self.size = rate, max(1.0, rate / 4 if burst is None else burst)
        self.left, self.at = self.size, 0.0

    def delay(self, now: float) -> float:
        """Seconds until this message may be dealt with, by a monotonic clock."""
        self.left = min(self.size, self.left + (now - self.at) * self.rate) - 1
        self.at = now
        return max(0.0, -self.left / self.rate)
