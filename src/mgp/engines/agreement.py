"""How well an engine agrees with torch, and what is too little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from mgp.engines.calls import Graph

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
        largest = max(float(call.output.abs().max()) for call in graph.calls) or 1.0
        for call in graph.calls:
            with torch.inference_mode():
                there = getattr(policy.get_submodule(graph.owner), graph.method)(*call.inputs).numpy()
            here = call.output.numpy()
            error = float(np.abs(there - here).max()) / largest
            worst = error if not error <= worst else worst  # NaN stays
            if graph.logits:
                same.append((there.argmax(-1) == here.argmax(-1)).ravel())
    return worst, float(np.concatenate(same).mean()) if same else None
