"""Errors as a client sees them: a short name and a sentence, never a traceback."""

from __future__ import annotations

from typing import NamedTuple

from mgp.errors import MessageError, MGPError, ObservationError, RequestError, UnknownNameError

SENTENCE = 300  # characters at most; what a client sent may be quoted in it


class PlanError(MGPError):
    """A plan that must not be sent."""


class DeadlineError(MGPError):
    """No time is left, and no plan is there to go on with."""


class Refusal(NamedTuple):
    name: str
    sentence: str
    final: bool  # whether the connection is closed; the others leave the episode as it was

    @property
    def text(self) -> str:
        return f"{self.name}: {self.sentence}"


# the first that fits
_KINDS: tuple[tuple[type[Exception], str, bool], ...] = (
    (MessageError, "bad-message", True),
    (RequestError, "bad-request", False),
    (ObservationError, "bad-observation", False),
    (UnknownNameError, "bad-observation", False),  # an instruction
    (DeadlineError, "deadline", False),
    (PlanError, "bad-plan", False),
)
NAMES = (*dict.fromkeys(name for _, name, _ in _KINDS), "internal")


def refusal(error: Exception) -> Refusal:
    """Of an error that is not foreseen, nothing is told but that there was one."""
    for kind, name, final in _KINDS:
        if isinstance(error, kind):
            sentence = "".join(letter if letter.isprintable() else "?" for letter in str(error)[:SENTENCE])
            return Refusal(name, sentence, final)
    return Refusal("internal", "the server failed; its log says why", True)
