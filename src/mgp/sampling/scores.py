"""How sure ATR is of each pending token of a plan under a new observation: named scores, `sampling.score` selects one.

The paper's is `posterior` (equation 4). It tells which tokens the network would not say now, and a token that only the
past can tell, such as which basket, is one of these whether the scene has changed or not. `leave-out` asks instead
which tokens do not fit the rest of the plan and the new observation together. O observed episodes, N tokens, W windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mgp.model.reading import chosen
from mgp.sampling.sampler import LogitsFn, confidence_of


class Question(NamedTuple):
    """A plan, and whom to ask about it."""

    plan: Tensor  # (O, N)
    pending: Tensor  # (N,) bool, the tokens that may be rewritten
    logits: LogitsFn  # also for a multiple of O rows: those of an episode one after the other
    mask: int  # [MASK]
    alike: Tensor | None  # (K, K) of `sampler.likeness`
    see_pending: bool  # whether the pending tokens are in view of `posterior`
    window: int  # tokens that `leave-out` hides at a time


class Scored(NamedTuple):
    sure: Tensor  # (O, N) confidence of the pending tokens, 0 elsewhere
    ranking: Tensor  # (O, N) of the pending tokens the lowest are rewritten


def posterior(question: Question) -> Scored:
    """Equation 4: probability of the standing token given the new observation and the executed tokens.

    A pending token that is in view vouches for itself, and then a stale plan looks sure.
    """
    plan, pending = question.plan, question.pending
    given = plan if question.see_pending else torch.where(pending, question.mask, plan)
    sure = _sure(question, given, chosen(pending.expand_as(plan)), plan)
    return Scored(sure, sure)


def leave_out(question: Question) -> Scored:
    """A window of pending tokens is hidden and scored from the rest of the plan and the new observation, all in turn.

    The windows are rows of one pass. Nothing vouches for itself, but memory that the plan holds elsewhere counts.
    """
    plan, pending = question.plan, question.pending
    number = (pending.cumsum(0) - 1) // question.window  # (N,) of the window a pending token is in
    windows = int(number.max()) + 1
    hidden = pending & (number == torch.arange(windows)[:, None])  # (W, N)
    rows = plan.repeat_interleave(windows, 0)  # (O W, N)
    hidden = hidden.repeat(len(plan), 1)
    sure = _sure(question, torch.where(hidden, question.mask, rows), chosen(hidden), rows)
    sure = (sure * hidden).unflatten(0, (len(plan), windows)).sum(1)
    return Scored(sure, sure)


def _sure(question: Question, given: Tensor, asked: Tensor, tokens: Tensor) -> Tensor:
    """Confidence of `tokens` (R, N) at places `asked` (R, P) if the network sees `given` (R, N); 0 elsewhere."""
    confidence = confidence_of(question.logits(given, asked), tokens.gather(1, asked), question.alike)
    return torch.zeros(tokens.shape).scatter(1, asked, confidence)


SCORES: dict[str, Callable[[Question], Scored]] = {"posterior": posterior, "leave-out": leave_out}
