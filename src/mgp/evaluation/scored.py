"""An MGP-Long that drives as ever and notes, at each replanning, what every score of ATR says of its standing plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mgp.evaluation.probe import MASKINGS, Probed, ProbedMemory, flips, flips_by_action
from mgp.policies.base import Chunk, Frame, Memory, PlanTrace
from mgp.policies.learned import LearnedPolicy
from mgp.policies.mgp.policy import LongMemory
from mgp.sampling.long import Edit
from mgp.sampling.scores import SCORES

NAMES = tuple(SCORES)
COUNTS = ("masked", "flipped", "flipped_action")  # flips as of `ProbedTrace`


@dataclass(frozen=True)
class ScoredTrace(PlanTrace):
    """S scores, in the order of NAMES. At the first plan nothing stands yet, and there is no score of it."""

    standing: np.ndarray  # (R, N) the plan before the edit
    ranking: np.ndarray  # (R, S, N) by which ATR would rewrite the lowest; NaN at the first plan
    flips: np.ndarray  # (R, S, 2, 3) how many of COUNTS, masking by the score the lowest and the highest
    actions: np.ndarray  # (R, run, A) what was executed until the next replanning


class Scored(Probed):
    Trace = ScoredTrace

    def note(self, look: Callable[..., Edit | None], inner: Memory, seen: np.ndarray) -> dict[str, np.ndarray]:
        assert isinstance(inner, LongMemory)
        assert inner.planner is not None
        batch, size, plan = len(seen), self.policy.tokens, inner.planner.tokens
        standing = np.full((batch, size), -1) if plan is None else plan.cpu().numpy().copy()
        ranking = np.full((batch, len(NAMES), size), np.nan)
        counts = np.zeros((batch, len(NAMES), len(MASKINGS), len(COUNTS)), int)
        for place, score in enumerate(NAMES):
            for other, scoring in enumerate(MASKINGS.values()):
                edit = look(score=score, scoring=scoring)
                if edit is None:
                    continue
                told = (*flips(edit), flips_by_action(self.policy, edit))  # each (O, N)
                counts[seen, place, other] = np.stack([one.sum(1) for one in told], 1)
                if scoring == "atr":
                    ranking[seen, place] = edit.ranking.cpu().numpy()
        return {"standing": standing, "ranking": ranking, "flips": counts}

    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        assert isinstance(memory, ProbedMemory)
        chunk = super().plan(observation, memory, observed, executed)
        memory.notes[-1]["actions"] = chunk.actions[:, : chunk.run].copy()
        return chunk


def load_scored(load: Callable[[], LearnedPolicy], keep_after: int | None = None) -> Scored:
    """Picklable, for worker processes."""
    return Scored(load(), keep_after)
