"""An MGP-Long that drives as ever and notes, at each replanning, what other maskings would have made of its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from mgp.errors import ConfigError
from mgp.policies.base import Chunk, Frame, Memory, PlanTrace, Policy
from mgp.policies.learned import LearnedPolicy
from mgp.policies.mgp import MGP
from mgp.sampling.long import Edit

# what is masked: the least sure tokens, as ATR does, or the surest
MASKINGS = {"low": "atr", "high": "inverse"}
# A token flips by action if one of its actions changes by more than this, normalised to [-1, 1]. Many of the 1024 codes
# are near-duplicates, so that a change of code alone says little. The tokenizer's own error is about 0.006 (root of the
# squared error in README.md): what exceeds this many times over is another motion, not another name for the same one.
ACTION_CHANGE = 0.05


@dataclass(frozen=True)
class ProbedTrace(PlanTrace):
    """The trace of the plan, and two edits of it that start from the same plan and observation.

    At the first plan nothing stands yet: `standing` is NaN there and nothing is masked or flipped.
    """

    standing: np.ndarray  # (R, N) confidence of the plan before the edit, under the new observation (equation 4)
    low_masked: np.ndarray  # (R, N) bool, masking the least sure
    low_flipped: np.ndarray  # (R, N) bool, of these the tokens that came back as another code
    low_flipped_action: np.ndarray  # (R, N) bool, of these the tokens whose actions changed by over ACTION_CHANGE
    high_masked: np.ndarray  # (R, N) bool, masking the surest
    high_flipped: np.ndarray  # (R, N) bool
    high_flipped_action: np.ndarray  # (R, N) bool


@dataclass
class ProbedMemory(Memory):
    inner: Memory  # of the policy inside
    notes: list[dict[str, np.ndarray]]


class Probed(Policy):
    """The actions are those of the policy inside, to the bit: `MGP.what_if` touches neither plan nor generators.

    After `keep_after` control steps nothing more is edited: the policy is told that nothing was observed, and goes on
    with its plan, while the probe still scores it under what is seen.
    """

    Trace: type[PlanTrace] = ProbedTrace

    def __init__(self, policy: LearnedPolicy, keep_after: int | None = None):
        if not isinstance(policy, MGP) or not policy.long:
            raise ConfigError(
                f"{policy.label} keeps no plan whose confidence could be followed: study an MGP-Long, e.g."
                f" `mgp train --method mgp-long --task {policy.config.task.name}`"
            )
        self.policy, self.keep_after = policy, keep_after
        self.history, self.first = policy.history, policy.first
        self.execution_horizon, self.observation_shapes = policy.execution_horizon, policy.observation_shapes

    def begin(self, seeds: Sequence[int]) -> ProbedMemory:
        inner = self.policy.begin(seeds)
        return ProbedMemory(inner.seeds, inner.last, inner, [])

    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        assert isinstance(memory, ProbedMemory)
        memory.inner.last = memory.last
        seen = np.ones(len(memory.seeds), bool) if observed is None else np.asarray(observed, bool)
        look = partial(self.policy.what_if, observation, memory.inner, observed, executed, variant="long")
        step = len(memory.notes) * self.execution_horizon
        memory.notes.append(self.note(look, memory.inner, seen))
        if self.keep_after is not None and step > self.keep_after:
            observed = np.zeros_like(seen)
        return self.policy.plan(observation, memory.inner, observed, executed)

    def note(self, look: Callable[..., Edit | None], inner: Memory, seen: np.ndarray) -> dict[str, np.ndarray]:
        """What is written down of a replanning, each of B episodes; `look(**sampling)` is the edit it would be."""
        shape = (len(seen), self.policy.tokens)
        note: dict[str, np.ndarray] = {"standing": np.full(shape, np.nan)}
        for name, scoring in MASKINGS.items():
            edit = look(scoring=scoring)
            masked, flipped, acting = (np.zeros(shape, bool) for _ in range(3))
            if edit is not None:
                masked[seen], flipped[seen] = flips(edit)
                acting[seen] = flips_by_action(self.policy, edit)
                note["standing"][seen] = edit.scores.cpu().numpy()
            note |= {f"{name}_masked": masked, f"{name}_flipped": flipped, f"{name}_flipped_action": acting}
        return note

    def trace(self, memory: Memory, episode: int) -> PlanTrace | None:
        assert isinstance(memory, ProbedMemory)
        plan = self.policy.trace(memory.inner, episode)
        if plan is None:
            return None
        probes = {key: np.stack([note[key][episode] for note in memory.notes]) for key in memory.notes[0]}
        return self.Trace(**vars(plan), **probes)


def flips(edit: Edit) -> tuple[np.ndarray, np.ndarray]:
    """Masked tokens (O, N) bool, and those of them that hold another code after the refinement than before it."""
    masked = edit.rounds > 0
    return masked.cpu().numpy(), (masked & (edit.tokens != edit.before)).cpu().numpy()


def flips_by_action(policy: MGP, edit: Edit) -> np.ndarray:
    """Masked tokens (O, N) bool whose actions the refinement changes by more than ACTION_CHANGE."""
    change = action_change(policy.decoded(edit.before), policy.decoded(edit.tokens))
    return ((edit.rounds > 0).cpu() & (change > ACTION_CHANGE)).numpy()


def action_change(before: Tensor, after: Tensor) -> Tensor:
    """The largest change (O, N) over the actions of a token and their dimensions, (O, N, actions, A) as decoded.

    Whole plans are decoded, since a token's actions also depend on its neighbours: they may change without its code.
    """
    return (after - before).abs().amax((2, 3))


def load_probed(load: Callable[[], LearnedPolicy], keep_after: int | None = None) -> Probed:
    """Picklable, for worker processes: `functools.partial(load_probed, run.loader())`."""
    return Probed(load(), keep_after)
