"""How many threads of torch a policy acts with, without a gradient.

A small network at batch 1 is slower on two threads than on one: a replan of MGP-Short took 18.2 ms against 6.8. Nobody
who loads a policy should have to know that, and what else runs in the process keeps its own number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn

SMALL = 20_000_000  # parameters; a network of more is shared among threads with profit
ROWS = 4  # and so are more episodes at once

_chosen: ContextVar[int | None] = ContextVar("threads", default=None)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """So many threads, whatever a policy would choose; then as many as before."""
    before, token = torch.get_num_threads(), _chosen.set(count)
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _chosen.reset(token)


def acting(plan: Callable) -> Callable:
    """Of a learned policy's `plan(self, observation, memory, ...)`: no gradients, and one thread if that is faster."""

    @functools.wraps(plan)
    def act(self: nn.Module, observation: Any, memory: Any, *rest: Any, **named: Any) -> Any:
        before = torch.get_num_threads()
        fewer = before > 1 and _chosen.get() is None and len(memory.seeds) <= ROWS and _small(self)
        if fewer:
            torch.set_num_threads(1)
        try:
            with torch.inference_mode():
                return plan(self, observation, memory, *rest, **named)
        finally:
            if fewer:
                torch.set_num_threads(before)

    return act


def _small(policy: nn.Module) -> bool:
    """On a GPU threads do not matter; counted once."""
    if "_is_small" not in policy.__dict__:
        count = sum(parameter.numel() for parameter in policy.parameters())
        policy.__dict__["_is_small"] = count <= SMALL
    return policy.__dict__["_is_small"]
