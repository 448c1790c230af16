"""One hierarchy of errors; each message names the value, the limit and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MGPError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(MGPError):
    """A setting that cannot work, alone or with another one."""


class UnknownNameError(ConfigError):
    """A method, task, field or policy that does not exist."""

    def __init__(self, kind: str, name: str, valid: Iterable[str]):
        self.arguments = kind, name, valid = kind, name, sorted(valid)
        near = difflib.get_close_matches(name, valid, n=3, cutoff=0.4)
        near.sort(key=lambda one: sorted(one) != sorted(name))  # letters that changed places come first: mpg, mgp
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"unknown {kind} {name!r}.{hint} Valid: {', '.join(valid)}.")

    def __reduce__(self) -> tuple:
        return type(self), self.arguments  # worker processes send errors home pickled


class DataError(MGPError):
    """A demonstration store that is missing, incomplete, corrupted or of the wrong shape."""


class CheckpointError(MGPError):
    """A checkpoint that is missing, incomplete, corrupted or of another format."""


class ObservationError(MGPError):
    """An observation that must not reach the model: wrong keys, shape, dtype, NaN or Inf."""


class MessageError(MGPError):
    """A message over the wire that the protocol does not allow."""


class RequestError(MGPError):
    """A well-formed message to a policy server that asks for something it cannot do."""


class RemoteError(MGPError):
    """What a policy server refused: `name` is one of a few short words, the message says more."""

    def __init__(self, said: str):
        self.name = said.partition(":")[0]
        super().__init__(said)


class ConnectionLostError(MGPError):
    """A policy server that cannot be reached, or went away."""


class SimulationError(MGPError):
    """An environment that cannot be built or stepped as asked."""


class SeedOverlapError(MGPError):
    """Evaluation seeds that were used for demonstrations."""
