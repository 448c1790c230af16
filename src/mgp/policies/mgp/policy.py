"""MGP behind the contract of a learned policy: MGP-Short and MGP-Long share everything but how they sample.

B episodes, O of them with an observation, H frames, N tokens, A action width.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mgp.data.spec import DataSpec
from mgp.data.windows import Looks
from mgp.errors import ConfigError
from mgp.model.reading import Reading
from mgp.policies.acting import acting
from mgp.policies.base import Chunk, Frame, Memory, PlanTrace
from mgp.policies.config import RunConfig
from mgp.policies.learned import LearnedMemory, merged
from mgp.policies.mgp.gaze import Aside
from mgp.policies.mgp.whole import Now, Rewritten, WholePlans
from mgp.sampling.config import SamplingConfig
from mgp.sampling.long import Edit, LongPlanner, PlanLogits
from mgp.sampling.sampler import likeness
from mgp.sampling.short import plan_short
from mgp.sampling.whole import Filled


@dataclass
class LongMemory(LearnedMemory):
    planner: LongPlanner | None = None  # of MGP-Long
    steps: int = 0  # actions executed since the episode began
    offsets: Tensor | None = None  # (B, T, A) of the whole plan's actions, those of each as when it was last looked at
    aside: Aside | None = None  # of the whole plan's places


class MGP(WholePlans):
    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        self._alike: dict[tuple[float, int], Tensor | None] = {}  # `likeness` of the codes, by its width

    @property
    def sampling(self) -> SamplingConfig:
        return self.options.sampling

    @property
    def label(self) -> str:
        """As the paper writes it."""
        names = {"long": "MGP-Long", "full": "MGP-Full", "no-sm": "MGP-w/o-SM"}
        return names[self.sampling.variant] if self.long else "MGP-Short"

    def check(self) -> None:
        if not self.long:
            super().check()

    def begin(self, seeds: Sequence[int]) -> LongMemory:
        basic = super().begin(seeds)
        if not self.long:
            return LongMemory(**vars(basic))
        key = (self.sampling.near_codes, self.tokenizer.codebook.codes._version)
        if key not in self._alike:  # a million distances: once, not for every episode
            self._alike[key] = likeness(self.tokenizer.codebook.codes.detach().cpu(), self.sampling.near_codes)
        rest = (self.transformer.vocabulary, self.tokens, basic.generators, self._alike[key])
        return LongMemory(**vars(basic), planner=LongPlanner(self.sampling, *rest))

    def predict(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """MGP-Short: a fresh window; what of it lies before now is not executed."""
        return self._short(condition, generators)[0]

    def _short(
        self, condition: Tensor, generators: Sequence[torch.Generator], known: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Raw actions from now on (O, T, A), and how sure they are (O,); `known` (O, K) tokens begin the window."""
        reading, nothing = self.reading(lambda: condition), torch.zeros(len(condition), dtype=torch.long)
        out = plan_short(
            lambda tokens, asked: reading(tokens, asked, nothing),
            len(condition),
            self.tokens,
            self.sampling,
            self.transformer.vocabulary,
            generators,
            known,
        )
        sure = out.confidence[:, 0 if known is None else known.shape[1] :].mean(1)
        guess = self.tokenizer.decode(out.tokens.to(self.device)).clamp(-1, 1)
        if self.offset is not None:
            guess = guess + self.offset(condition, guess)
        return self.raw_actions(guess)[:, self.past :], sure

    @acting
    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        if not self.long:
            return self._plan_short(observation, memory, observed)
        planner, condition, seen, looks = self._replanning(observation, memory, observed)
        assert isinstance(memory, LongMemory)
        steps, tokens = self._executed(memory, executed)
        corrects = looks is not None and (planner.tokens is None or self.sampling.variant != "full")
        ahead = 0 if memory.committed is None else memory.committed.ahead
        planner.traced = memory.traced
        now = Now(steps, tokens, self._begun(steps + ahead))
        made: list[Rewritten] = []

        def rewrite(plan: Tensor, confidence: Tensor) -> Filled:
            assert looks is not None
            assert isinstance(memory, LongMemory)
            parts = self.condition_apart(looks, memory)
            made.append(self.whole_rewrite(plan, confidence, parts, now, planner.alike, self.sampling))
            return made[0].plan

        whole = corrects and planner.tokens is not None and self.may_be_whole(len(seen), self.sampling)
        plan = planner.step(self.reading(condition), seen, tokens, now.frozen, rewrite if whole else None)
        memory.steps = steps  # not before the plan is there
        normal = made[0].actions if made else self._from(plan, steps)  # (B, T, A) from now on
        if self.offset is not None:
            if corrects and normal.shape[1]:
                self._correct(memory, normal, seen, made[0].offset if made else self._offset(normal, seen, condition()))
            normal = normal if memory.offsets is None else normal + memory.offsets[:, steps:]
        raw = self.raw_actions(normal)
        if self.gaze is not None and raw.shape[1]:
            raw = self._drawn_aside(memory, raw, seen, looks if corrects else None)
        actions = raw.cpu().numpy()
        if actions.shape[1] < self.execution_horizon:  # the plan is over: hold
            last = actions[:, -1] if actions.shape[1] else memory.last
            hold = np.where(np.isnan(self.spec.hold_command), last, self.spec.hold_command).astype(np.float32)
            rest = np.repeat(hold[:, None], self.execution_horizon - actions.shape[1], axis=1)
            actions = np.concatenate([actions, rest], axis=1)
        return Chunk(actions, self.execution_horizon, planner.sure.numpy())

    def _plan_short(self, observation: Frame, memory: Memory, observed: np.ndarray | None) -> Chunk:
        """A window where an observation arrived; the others hold."""
        assert isinstance(memory, LearnedMemory)
        looks, seen = self.look(observation, memory, observed)
        actions = np.repeat(self.holding(memory)[:, None], self.window - self.past, axis=1)  # (B, T, A)
        sure = np.full(len(seen), np.nan, np.float32)
        if looks is not None:
            generators = [one for one, there in zip(memory.generators, seen, strict=True) if there]
            known = self._known(memory)
            known = None if known is None else known[torch.from_numpy(seen)]
            if self.may_be_whole(len(looks.which), self.sampling):
                made, confidence = self.whole_window(self.condition_apart(looks, memory), known, self.sampling)
            else:
                made, confidence = self._short(self.condition(looks, memory=memory), generators, known)
            actions[seen], sure[seen] = made.cpu().numpy(), confidence.numpy()
        return Chunk(actions, self.execution_horizon, sure)

    def _known(self, memory: Memory) -> Tensor | None:
        """MGP-Short: the tokens (B, K) of what is run before the window is there, begun ones too; one at least is free.

        They are those of the commands given and in hand, so that the window goes on from what the robot does.
        """
        if memory.committed is None:
            return None
        count = min(self._begun(self.past + memory.committed.ahead), self.tokens - 1)
        actions = memory.committed.actions[:, : self.window]  # (B, past + R, A)
        short = self.window - actions.shape[1]
        actions = np.concatenate([actions, np.repeat(actions[:, -1:], short, axis=1)], axis=1)
        return self.tokenize(torch.as_tensor(actions, dtype=torch.float32))[:, :count]

    def joined(self, memory: Memory, chunk: Chunk, passed: int, rest: np.ndarray) -> Chunk:
        """MGP-Long: tokens that were begun meanwhile are those of the plan before, and are run to their end."""
        if not self.long:
            return chunk
        assert isinstance(memory, LongMemory)
        assert memory.planner is not None
        begun = self._begun(memory.steps + passed)
        if begun <= memory.planner.frozen:  # it was known that they would be
            return chunk
        memory.planner.keep(begun)
        count = min(begun * self.options.tokenizer.actions_per_token - memory.steps - passed, rest.shape[1])
        actions = chunk.actions.copy()
        actions[:, passed : passed + count] = rest[:, :count]
        return chunk._replace(actions=actions)

    def refused(self, memory: Memory) -> None:
        if isinstance(memory, LongMemory) and memory.planner is not None and memory.planner.before:
            memory.planner.keep(self.tokens)

    @acting
    def what_if(
        self,
        observation: Frame,
        memory: Memory,
        observed: np.ndarray | None = None,
        executed: int | None = None,
        **changes: object,
    ) -> Edit | None:
        """The edit that `plan` would make of MGP-Long's plan if sampled otherwise, e.g. `scoring="inverse"`.

        Nothing comes of it: neither plan nor random streams change. None where there is nothing to edit: no plan yet,
        the plan is over, nothing was observed, or `variant` is "full", which never edits.
        """
        planner, condition, seen, _ = self._replanning(observation, memory, observed)
        return planner.what_if(self.reading(condition), seen, self._executed(memory, executed)[1], **changes)

    def _executed(self, memory: Memory, executed: int | None) -> tuple[int, int]:
        """Steps and tokens executed since the episode began. A token begun is a token executed."""
        assert isinstance(memory, LongMemory)
        assert memory.planner is not None
        since = self.execution_horizon if executed is None else executed
        steps = memory.steps + (0 if memory.planner.tokens is None else since)
        return steps, self._begun(steps)

    def _begun(self, steps: int) -> int:
        """Tokens that so many steps have begun."""
        return -(-steps // self.options.tokenizer.actions_per_token)

    def _replanning(self, observation: Frame, memory: Memory, observed: np.ndarray | None):
        """The planner, the condition of the episodes that have one, made when it is asked for, and which they are.

        And what they see.
        """
        if not isinstance(memory, LongMemory) or memory.planner is None:
            raise ConfigError("MGP-Short keeps no plan that could be edited: ask an MGP-Long (horizon = 'long')")
        looks, seen = self.look(observation, memory, observed)

        @functools.cache  # MGP-Full, and a plan that is over, never ask: then nothing is encoded
        def condition() -> Tensor:
            assert looks is not None, "no episode was observed, so none is replanned"
            return self.condition(looks, memory=memory)

        return memory.planner, condition, torch.from_numpy(seen), looks

    def _offset(self, plan: Tensor, seen: Tensor, condition: Tensor) -> Tensor:
        """MGP-Long: offsets (O, T', A) of what comes next in plans (B, T, A), by the condition (O, H, C) of some."""
        assert self.offset is not None
        rows = plan[seen.to(plan.device)]
        return self.offset(condition, self.next_actions(rows, torch.zeros(len(rows), dtype=torch.long).to(rows.device)))

    def _correct(self, memory: LongMemory, plan: Tensor, seen: Tensor, offset: Tensor) -> None:
        """MGP-Long: offsets (O, T', A) of what comes next in a plan (B, T, A) from now on.

        They stay until the next look, so that a plan goes on through a gap as it was corrected before it.
        """
        if memory.offsets is None:
            memory.offsets = torch.zeros(len(plan), memory.steps + plan.shape[1], plan.shape[2], device=plan.device)
        rows, steps = seen.to(plan.device).nonzero().squeeze(1), memory.steps
        memory.offsets[rows, steps : steps + self.window] = offset[:, : plan.shape[1]]

    def _drawn_aside(self, memory: LongMemory, plan: Tensor, seen: Tensor, looks: Looks | None) -> Tensor:
        """MGP-Long: plans (B, T, A) from now on, led to where what they mean was last seen, after a look of some."""
        assert self.gaze is not None
        now = memory.steps
        if memory.aside is None:
            memory.aside = Aside(len(plan), now + plan.shape[1], plan.device)
        if looks is not None:
            assert looks.state is not None
            rows, newest = seen.nonzero().squeeze(1).to(plan.device), looks.which[:, -1]
            cloud, hand = looks.frames[self.gaze_key][newest], looks.state[:, -1, :3]
            memory.aside.look(self.gaze, rows, cloud, hand, plan[rows, :, :3], now)
        led = plan + F.pad(memory.aside.by[:, now:], (0, plan.shape[2] - 2))
        return self.raw_actions(self.normal_actions(led))  # inside the demonstrated limits

    def reading(self, condition: Callable[[], Tensor]) -> PlanLogits:
        """The logits of tokens under a condition (O, H, C)."""
        return Reading(self.transformer, condition)

    def _from(self, plan: Tensor, steps: int) -> Tensor:
        """The normalised actions (B, T, A) of plans (B, N) after so many steps. What was executed is not decoded."""
        token, rest = divmod(steps, self.options.tokenizer.actions_per_token)
        return self.tokenizer.decode_from(plan.to(self.device), token)[:, rest:].clamp(-1, 1)

    def actions(self, tokens: Tensor) -> Tensor:
        """Tokens (B, N) to actions (B, T, A) in the environment's units, inside the demonstrated limits."""
        return self.raw_actions(self.tokenizer.decode(tokens))

    @torch.inference_mode()
    def decoded(self, plan: Tensor) -> Tensor:
        """Whole plans (B, N) as the actions of their tokens (B, N, actions, A), normalised."""
        return self.tokenizer.decode(plan.to(self.device)).clamp(-1, 1).cpu().unflatten(1, (plan.shape[1], -1))

    def together(self, memories: Sequence[Memory]) -> Memory | None:
        """Plans of the whole episode are not mixed: each has its own executed prefix."""
        return None if self.long else merged(memories)

    def trace(self, memory: Memory, episode: int) -> PlanTrace | None:
        log = memory.planner.log if isinstance(memory, LongMemory) and memory.planner else []
        return PlanTrace(**{key: np.stack([entry[key][episode] for entry in log]) for key in log[0]}) if log else None
