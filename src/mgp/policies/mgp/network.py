"""The networks of MGP and how they are trained: first the tokenizer, then the transformer over its frozen codes.

And between them the gaze, which shares nothing with either.

B windows, H frames, N tokens, A action width.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgp.data.demonstrations import Demonstrations
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch, Source
from mgp.model.encoders import kind_of
from mgp.model.rounding import rounded
from mgp.model.transformer import MaskedTransformer
from mgp.policies.config import RunConfig
from mgp.policies.learned import Figures, LearnedPolicy, Stage
from mgp.policies.mgp.config import MGPConfig
from mgp.policies.mgp.gaze import Gaze, GazeWindows, gaze_loss
from mgp.policies.mgp.offset import WEIGHT, OffsetHead, draw_near, ladder, nearness
from mgp.policies.mgp.windows import LongWindows, ShortWindows, TokenizerWindows
from mgp.sampling.long import NEAR
from mgp.sampling.losses import soft_targets, token_loss
from mgp.tokenizer.vqvae import ActionTokenizer

CHUNK = 512  # windows tokenised at a time
GAZE_BATCH, GAZE_RATE = 32, 2e-3
ROWS = 128  # tokens of a training step are rounded up to this


class MGPNetworks(LearnedPolicy):
    Config = MGPConfig

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        options = self.options
        per = options.tokenizer.actions_per_token
        # a Short window starts at the oldest frame
        self.past = config.encoder.history - 1 if not self.long else 0
        # training looks where a token begins; what a token that was begun holds counts as done
        self.beat = per if self.long else 1
        self.window = options.tokenizer.window if not self.long else NEAR * per
        self.tokens = -(-(spec.horizon if self.long else options.tokenizer.window) // per)  # N, of a plan
        self.tokenizer = ActionTokenizer(options.tokenizer, spec.action)
        self.encoder = self.make_encoder()
        codes = self.tokenizer.codebook.codes
        frames = config.encoder.frames
        self.transformer = MaskedTransformer(options.transformer, codes, self.encoder.dim, frames, self.tokens)
        self.auxiliary = self.make_auxiliary(self.window)
        self.offset = OffsetHead(self.condition_width, self.window, spec.action) if options.offset else None
        clouds = [key for key in spec.shapes if kind_of(key) == "cloud"]
        seen = options.gaze and clouds and spec.lead_to_places
        self.gaze_key = clouds[0] if seen else ""
        self.gaze = Gaze(spec.shapes[self.gaze_key][-1]) if seen else None

    @property
    def options(self) -> MGPConfig:
        return cast(MGPConfig, self.config.policy)

    @property
    def long(self) -> bool:
        return self.options.horizon == "long"

    def stages(self) -> tuple[Stage, ...]:
        tokenizer = self.options.tokenizer
        stages = [Stage("tokenizer", tokenizer.steps, tokenizer.batch, tokenizer.learning_rate)]
        if self.gaze is not None:
            stages.append(Stage("gaze", self.options.gaze, GAZE_BATCH, GAZE_RATE))
        return (*stages, *super().stages())

    def begin_stage(self, stage: Stage) -> dict[str, nn.Parameter]:
        if stage.name == "tokenizer":
            return {f"tokenizer.{name}": p for name, p in self.tokenizer.named_parameters()}
        if stage.name == "gaze":
            assert self.gaze is not None
            return {f"gaze.{name}": p for name, p in self.gaze.named_parameters()}
        self.adopt_codebook()
        return {name: p for name, p in self.named_parameters() if not name.startswith(("tokenizer.", "gaze."))}

    def adopt_codebook(self) -> None:
        """After stage 1: the transformer embeds the tokenizer's code vectors, frozen from here on."""
        codes = self.tokenizer.codebook.codes
        self.transformer.code_vectors.copy_(codes)
        self.transformer.code_scale.copy_(codes.std().clamp_min(1e-6))
        self.tokenizer.requires_grad_(False)
        self._soft = soft_targets(codes, self.options.masking.soft_labels)
        self._near = ladder(nearness(codes, self.options.offset)) if self.offset is not None else torch.empty(0)

    def source(self, stage: Stage, demonstrations: Demonstrations) -> Source:
        if stage.name == "tokenizer":
            return TokenizerWindows(demonstrations, self.config)
        if stage.name == "gaze":
            return GazeWindows(demonstrations, self.config, self.gaze_key)
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
        if stage.name == "gaze":
            assert self.gaze is not None
            return gaze_loss(self.gaze, batch, self.gaze_key)
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
            drawn = draw_near(batch.extra["clean"], self._near, generator)
            first = batch.extra["executed"] * self.options.tokenizer.actions_per_token
            guess = self.next_actions(self.tokenizer.decode(drawn).clamp(-1, 1), first)
        right = self.normal_actions(batch.actions)
        error = (guess + self.offset(condition, guess) - right).abs().mean()
        # guesses far worse than the regression are not read: then the head overrules what was chosen
        return WEIGHT * error, {"offset": error.detach(), "guess": (guess - right).abs().mean()}

    def next_actions(self, plan: Tensor, first: Tensor) -> Tensor:
        """Of decoded plans (B, T', A) the actions (B, T, A) from steps `first` (B,) on; after the end the last."""
        place = (first[:, None] + torch.arange(self.window, device=plan.device)).clamp_max(plan.shape[1] - 1)  # (B, T)
        return plan.gather(1, place[..., None].expand(-1, -1, plan.shape[2]))

    def frozen(self) -> dict[str, str]:
        return {"tokenizer": self.tokenizer.fingerprint()}
