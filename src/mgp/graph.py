"""Functions of tensors alone, in whose place an engine may compute.

A method marked `@graph` takes tensors and gives one or several, and neither changes anything nor looks at values to
decide what to do. That is all an engine needs (`mgp.engines`): it watches which of them acting calls, writes each down
as a graph, and stands in for it. Whatever else is done between them, such as drawing at random, stays Python. One may
call others: an engine that stands in for it does all at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Out = Tensor | tuple[Tensor, ...]
StandIn = Callable[..., Out | None]  # tensors to what the method would give; None if it cannot take their shapes
Watcher = Callable[[nn.Module, str, tuple[Tensor, ...], Out], None]  # told of each call: whose, which, in, out

_watchers: list[Watcher] = []
_STAND_INS = "_stand_ins"
_LOGITS = "_logits"


def graph(method: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method of an `nn.Module` as a function of tensors alone."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: nn.Module, *inputs: Any, **rest: Any) -> Out:
        other = self.__dict__.get(_STAND_INS, {}).get(name)
        if other is None and not _watchers:
            return method(self, *inputs, **rest)
        if rest or torch.is_grad_enabled() or not all(isinstance(one, Tensor) for one in inputs):
            return method(self, *inputs, **rest)  # trained, or called with more than tensors: no graph
        out = None if other is None else other(*inputs)
        if out is None:
            out = method(self, *inputs)
        for watcher in _watchers:
            watcher(self, name, inputs, out)
        return out

    return call


def outputs_of(out: Out) -> tuple[Tensor, ...]:
    return out if isinstance(out, tuple) else (out,)


def logits(method: Callable[..., Any]) -> Callable[..., Any]:
    """Mark such a method as giving logits, of which the likeliest is what counts: `@logits` above `@graph`."""
    setattr(method, _LOGITS, True)
    return method


def gives_logits(module: nn.Module, name: str) -> bool:
    return getattr(getattr(type(module), name), _LOGITS, False)


def stand_in(module: nn.Module, name: str, function: StandIn) -> None:
    """Let `function` compute what the marked method `name` would."""
    module.__dict__.setdefault(_STAND_INS, {})[name] = function


def dismiss(root: nn.Module) -> None:
    """Nobody stands in any more, in any part of it."""
    for module in root.modules():
        module.__dict__.pop(_STAND_INS, None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Tell of each call of a marked method in the block, if it could be a graph."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)
