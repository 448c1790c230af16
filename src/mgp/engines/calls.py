"""Which graphs a policy acts with: it is watched while it plans for recorded frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor, nn

from mgp.graph import Out, gives_logits, outputs_of, watched

Shape = tuple[int | None, ...]  # None: any size


class Call(NamedTuple):
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass
class Graph:
    """A marked method, and how it was called."""

    owner: str  # path of its module in the policy; "" is the policy itself
    method: str
    logits: bool  # whether its output is one of which the likeliest counts
    calls: list[Call] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Also of its file."""
        return f"{self.owner}.{self.method}".strip(".").removesuffix(".forward")

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of each input; an axis that took several sizes may take any."""
        seen = [[tuple(one.shape) for one in call.inputs] for call in self.calls]
        return tuple(
            tuple(axis[0] if len(set(axis)) == 1 else None for axis in zip(*shapes, strict=True))
            for shapes in zip(*seen, strict=True)
        )

    @property
    def example(self) -> Call:
        """The call whose free sizes differ most: one that is alike by chance must not be taken for a rule."""
        free = self.shapes

        def variety(call: Call) -> tuple[int, int]:
            both = zip(call.inputs, free, strict=True)
            sizes = [size for one, shape in both for size, known in zip(one.shape, shape, strict=True) if known is None]
            return len({size for size in sizes if size > 1}), sum(sizes)

        return max(self.calls, key=variety)


def observe(policy: nn.Module, act: Callable[[], None]) -> list[Graph]:
    """The graphs that `act` calls, in the order of their first calls."""
    paths = {id(module): path for path, module in policy.named_modules()}
    found: dict[tuple[str, str], Graph] = {}

    def note(module: nn.Module, method: str, inputs: tuple[Tensor, ...], output: Out) -> None:
        path = paths.get(id(module))
        if path is not None:
            graph = found.setdefault((path, method), Graph(path, method, gives_logits(module, method)))
            outputs = tuple(one.clone() for one in outputs_of(output))
            graph.calls.append(Call(tuple(one.clone() for one in inputs), outputs))

    with watched(note):
        act()
    return list(found.values())
