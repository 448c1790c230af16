"""MGP behind the contract of a learned policy: MGP-Short and MGP-Long share everything but how they sample.

B episodes, O of them with an observation, H frames, N tokens, A action width.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgp.data.demonstrations import Demonstrations
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch, Source
from mgp.errors import ConfigError
from mgp.model.rounding import rounded
from mgp.model.transformer import MaskedTransformer
from mgp.policies.base import Chunk, Frame, Memory, PlanTrace
from mgp.policies.config import RunConfig
from mgp.policies.learned import Figures, LearnedMemory, LearnedPolicy, Stage, merged
from mgp.policies.mgp.config import MGPConfig
from mgp.policies.mgp.offset import WEIGHT, OffsetHead, draw_near, nearness
from mgp.policies.mgp.windows import LongWindows, ShortWindows, TokenizerWindows
from mgp.sampling.config import SamplingConfig
from mgp.sampling.long import NEAR, Edit, LongPlanner, PlanLogits
from mgp.sampling.losses import soft_targets, token_loss
from mgp.sampling.sampler import likeness
from mgp.sampling.short import plan_short
from mgp.tokenizer.vqvae import ActionTokenizer

CHUNK = 512  # windows tokenised at a time
ROWS = 128  # tokens of a training step are rounded up to this


@dataclass
class LongMemory(LearnedMemory):
    planner: LongPlanner | None = None  # of MGP-Long
    steps: int = 0  # actions executed since the episode began
    offsets: Tensor | None = None  # (B, T, A) of the whole plan's actions, those of each as when it was last looked at


class MGP(LearnedPolicy):
    Config = MGPConfig

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        options = self.options
        per = options.tokenizer.actions_per_token
        # a Short window starts at the oldest frame
        self.past = config.encoder.history - 1 if not self.long else 0
        self.window = options.tokenizer.window if not self.long else NEAR * per
        self.tokens = -(-(spec.horizon if self.long else options.tokenizer.window) // per)  # N, of a plan
        self.tokenizer = ActionTokenizer(options.tokenizer, spec.action)
        self.encoder = self.make_encoder()
        codes = self.tokenizer.codebook.codes
        frames = config.encoder.frames
        self.transformer = MaskedTransformer(options.transformer, codes, self.encoder.dim, frames, self.tokens)
        self.auxiliary = self.make_auxiliary(self.window)
        self.offset = OffsetHead(self.condition_width, self.window, spec.action) if options.offset else None
        self._alike: dict[tuple[float, int], Tensor | None] = {}  # `likeness` of the codes, by its width

    @property
    def options(self) -> MGPConfig:
        return cast(MGPConfig, self.config.policy)

    @property
    def sampling(self) -> SamplingConfig:
        return self.options.sampling

    @property
    def long(self) -> bool:
        return self.options.horizon == "long"

    @property
    def label(self) -> str:
        """As the paper writes it."""
        names = {"long": "MGP-Long", "full": "MGP-Full", "no-sm": "MGP-w/o-SM"}
        return names[self.sampling.variant] if self.long else "MGP-Short"

    def check(self) -> None:
        if not self.long:
            super().check()

    # --- training: first the tokenizer, then the transformer over its frozen codes --------------------------------

    def stages(self) -> tuple[Stage, ...]:
        tokenizer = self.options.tokenizer
        return (Stage("tokenizer", tokenizer.steps, tokenizer.batch, tokenizer.learning_rate), *super().stages())

    def begin_stage(self, stage: Stage) -> dict[str, nn.Parameter]:
        if stage.name == "tokenizer":
            return {f"tokenizer.{name}": p for name, p in self.tokenizer.named_parameters()}
        self.adopt_codebook()
        return {name: p for name, p in self.named_parameters() if not name.startswith("tokenizer.")}

    def adopt_codebook(self) -> None:
        """After stage 1: the transformer embeds the tokenizer's code vectors, frozen from here on."""
        codes = self.tokenizer.codebook.codes
        self.transformer.code_vectors.copy_(codes)
        self.transformer.code_scale.copy_(codes.std().clamp_min(1e-6))
        self.tokenizer.requires_grad_(False)
        self._soft = soft_targets(codes, self.options.masking.soft_labels)
        self._nearness = nearness(codes, self.options.offset) if self.offset is not None else torch.empty(0)

    def source(self, stage: Stage, demonstrations: Demonstrations) -> Source:
        if stage.name == "tokenizer":
            return TokenizerWindows(demonstrations, self.config)
        vocabulary = self.transformer.vocabulary
        if not self.long:
            return ShortWindows(demonstrations, self.config, self.past, self.tokenize, vocabulary)
        rest = (self.window, self.tokens, self.tokenize, vocabulary, self.spec.horizon)
        return LongWindows(demonstrations, self.config, *rest)

    @torch.no_grad()
    def tokenize(self, actions: Tensor) -> Tensor:
        """Raw actions (M, T, A) to tokens (M, N)."""
        normal = self.normal_actions(actions.to(self.device))
        return torch.cat([self.tokenizer.encode(part) for part in normal.split(CHUNK)]).cpu()

    def loss(self, stage: Stage, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Figures]:
        if stage.name == "tokenizer":
            out = self.tokenizer.training_loss(self.normal_actions(batch.actions), generator)
            in_use = (self.tokenizer.codebook.unused == 0).sum()
            return out.total, {"reconstruction": out.reconstruction, "commit": out.commit, "codes": in_use}
        condition = self.condition(batch.looks, generator)
        seen, target, weight = (batch.extra[name] for name in ("tokens", "target", "weight"))
        counted = (weight.flatten() > 0).nonzero().squeeze(1)
        rows = rounded(counted, ROWS)  # (M,)
        logits = self.transformer(seen, condition, batch.extra["executed"], rows)  # (M, K + 1)
        seen, target = seen.flatten()[rows], target.flatten()[rows]
        weight = F.pad(weight.flatten()[counted], (0, len(rows) - len(counted)))
        loss = token_loss(logits, target, weight, self._soft)
        hidden = (seen == self.transformer.vocabulary.mask) & (weight > 0)
        right = logits.gather(1, target[:, None]).squeeze(1) >= logits.amax(1)  # a tenth of argmax's time
        figures = {"accuracy": right[hidden].float().mean()}
        auxiliary, more = self.auxiliary_loss(condition, batch.actions)
        offset, error = self.offset_loss(condition, batch, generator)
        return loss + auxiliary + offset, figures | more | error

    def offset_loss(
        self, condition: Tensor, batch: Batch, generator: torch.Generator
    ) -> tuple[Tensor | float, Figures]:
        """Weighted error of the actions (B, T, A) of codes near the right ones, once the head has corrected them."""
        if self.offset is None:
            return 0.0, {}
        with torch.no_grad(), torch.autocast(condition.device.type, enabled=False):
            drawn = draw_near(batch.extra["clean"], self._nearness, generator)
            first = batch.extra["executed"] * self.options.tokenizer.actions_per_token
            guess = self.next_actions(self.tokenizer.decode(drawn).clamp(-1, 1), first)
        error = (guess + self.offset(condition, guess) - self.normal_actions(batch.actions)).abs().mean()
        return WEIGHT * error, {"offset": error.detach()}

    def next_actions(self, plan: Tensor, first: Tensor) -> Tensor:
        """Of decoded plans (B, T', A) the actions (B, T, A) from steps `first` (B,) on; after the end the last."""
        place = (first[:, None] + torch.arange(self.window, device=plan.device)).clamp_max(plan.shape[1] - 1)  # (B, T)
        return plan.gather(1, place[..., None].expand(-1, -1, plan.shape[2]))

    def frozen(self) -> dict[str, str]:
        return {"tokenizer": self.tokenizer.fingerprint()}

    # --- acting ---------------------------------------------------------------------------------------------------

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
        nothing = torch.zeros(len(condition), dtype=torch.long)
        out = plan_short(
            lambda tokens: self._logits(tokens, condition, nothing),
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

    @torch.inference_mode()
    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        if not self.long:
            return self._plan_short(observation, memory, observed)
        planner, condition, seen = self._replanning(observation, memory, observed)
        assert isinstance(memory, LongMemory)
        steps, tokens = self._executed(memory, executed)
        looks = bool(seen.any()) and (planner.tokens is None or self.sampling.variant != "full")
        ahead = 0 if memory.committed is None else memory.committed.ahead
        plan = planner.step(self._asking(condition), seen, tokens, self._begun(steps + ahead))
        memory.steps = steps  # not before the plan is there
        normal = self.tokenizer.decode(plan.to(self.device)).clamp(-1, 1)  # (B, T, A) of the whole episode
        if self.offset is not None:
            if looks and steps < normal.shape[1]:
                self._correct(memory, normal, seen, condition())
            normal = normal if memory.offsets is None else normal + memory.offsets
        actions = self.raw_actions(normal)[:, steps:].cpu().numpy()  # from now on
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
            made, confidence = self._short(self.condition(looks), generators, known)
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

    @torch.inference_mode()
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
        planner, condition, seen = self._replanning(observation, memory, observed)
        return planner.what_if(self._asking(condition), seen, self._executed(memory, executed)[1], **changes)

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
        """The planner, the condition of the episodes that have one, made when it is asked for, and which they are."""
        if not isinstance(memory, LongMemory) or memory.planner is None:
            raise ConfigError("MGP-Short keeps no plan that could be edited: ask an MGP-Long (horizon = 'long')")
        looks, seen = self.look(observation, memory, observed)

        @functools.cache  # MGP-Full, and a plan that is over, ask for no logits: then nothing is encoded
        def condition() -> Tensor:
            assert looks is not None, "no episode was observed, so none is replanned"
            return self.condition(looks)

        return memory.planner, condition, torch.from_numpy(seen)

    def _asking(self, condition: Callable[[], Tensor]) -> PlanLogits:
        """The logits of a plan under a condition."""
        return lambda tokens, executed: self._logits(tokens, condition(), executed)

    def _correct(self, memory: LongMemory, plan: Tensor, seen: Tensor, condition: Tensor) -> None:
        """MGP-Long: offsets of what comes next in a decoded plan (B, T, A), from the condition (O, H, C) of those seen.

        They stay until the next look, so that a plan goes on through a gap as it was corrected before it.
        """
        assert self.offset is not None
        if memory.offsets is None:
            memory.offsets = torch.zeros_like(plan)
        rows, steps = seen.to(plan.device).nonzero().squeeze(1), memory.steps
        offset = self.offset(condition, self.next_actions(plan[rows], torch.full_like(rows, steps)))
        memory.offsets[rows, steps : steps + self.window] = offset[:, : plan.shape[1] - steps]

    def _logits(self, tokens: Tensor, condition: Tensor, executed: Tensor) -> Tensor:
        return self.transformer(tokens.to(self.device), condition, executed.to(self.device)).cpu()

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

    def forget_trace(self, memory: Memory) -> None:
        if isinstance(memory, LongMemory) and memory.planner is not None:
            memory.planner.log.clear()

    def trace(self, memory: Memory, episode: int) -> PlanTrace | None:
        log = memory.planner.log if isinstance(memory, LongMemory) and memory.planner else []
        return PlanTrace(**{key: np.stack([entry[key][episode] for entry in log]) for key in log[0]}) if log else None
