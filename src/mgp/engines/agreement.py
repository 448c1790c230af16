"""How well an engine agrees with torch, and what is too little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from mgp.engines.calls import Graph
from mgp.graph import outputs_of

# A codebook has near-duplicates, between which little decides: a token may be another and the action almost the same
TOKENS = 0.9  # share of choices that must be the same
ACTIONS = 0.01  # mean difference of the actions that would be run, at most; their limits are -1 and 1


@dataclass(frozen=True)
class Agreement:
    error: float  # largest difference of a graph's output, as a share of the largest number there
    tokens: float | None  # share of choices that are the same, given the same inputs; None if nothing is chosen
    actions: float  # mean difference of the actions that would be run, normalised

    @property
    def refusal(self) -> str:
        """Why the engine must not be used; "" if it may."""
        if not np.isfinite(self.error) or not np.isfinite(self.actions):
            return "it gives NaN or Inf"
        if self.tokens is not None and self.tokens < TOKENS:
            return f"{self.tokens:.1%} of its tokens are those of torch, {TOKENS:.0%} are needed"
        if self.actions > ACTIONS:
            return f"its actions differ by {self.actions:.3f} of 1, {ACTIONS} is allowed"
        return ""


def compare_graphs(graphs: Sequence[Graph], policy: nn.Module) -> tuple[float, float | None]:
    """Of a policy with an engine: the largest error of any graph on the inputs that torch was given, and the share of
    choices that are the same.
    """
    worst, same = 0.0, []
    for graph in graphs:
        columns = zip(*(call.outputs for call in graph.calls), strict=True)
        largest = [max(float(one.abs().max()) for one in column) or 1.0 for column in columns]
        for call in graph.calls:
            with torch.inference_mode():
                found = outputs_of(getattr(policy.get_submodule(graph.owner), graph.method)(*call.inputs))
            for error in _errors(found, call.outputs, largest):
                worst = error if not error <= worst else worst  # NaN stays
            if graph.logits:
                same.append((found[0].argmax(-1) == call.outputs[0].argmax(-1)).numpy().ravel())
    return worst, float(np.concatenate(same).mean()) if same else None


def _errors(found: Sequence[Tensor], expected: Sequence[Tensor], largest: Sequence[float]) -> list[float]:
    """Of each output that is no choice; of none once a choice inside the graph was another."""
    both = list(zip(found, expected, largest, strict=True))
    if not all(torch.equal(there, here) for there, here, _ in both if not here.is_floating_point()):
        return [0.0 if bool(there.isfinite().all()) else float("nan") for there in found]
    return [float((there - here).abs().max()) / most for there, here, most in both if here.is_floating_point()]
