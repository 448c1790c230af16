"""Policies in two stages: first a tokenizer of actions, then a policy over its frozen tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from torch import nn

from mgp.data.demonstrations import Demonstrations
from mgp.data.windows import ActionWindows, Source
from mgp.policies.learned import LearnedPolicy, Stage
from mgp.tokenizer.vqvae import fingerprint


class Schedule(Protocol):
    """What the settings of a tokenizer say of its stage."""

    @property
    def steps(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...


class TokenPolicy(LearnedPolicy):
    """A subclass makes `self.tokenizer`, whose actions are windows without frames, and its `schedule`."""

    tokenizer: nn.Module
    schedule: Schedule  # of the tokenizer's stage

    def stages(self) -> tuple[Stage, ...]:
        first = self.schedule
        return (Stage("tokenizer", first.steps, first.batch, first.learning_rate), *super().stages())

    def begin_stage(self, stage: Stage) -> dict[str, nn.Parameter]:
        first = stage.name == "tokenizer"
        self.tokenizer.requires_grad_(first)
        return {name: p for name, p in self.named_parameters() if name.startswith("tokenizer.") == first}

    def source(self, stage: Stage, demonstrations: Demonstrations) -> Source:
        if stage.name != "tokenizer":
            return super().source(stage, demonstrations)
        config = self.config
        # segments are there to share frames; here they would make a batch of 64 windows one of eight scenes
        training = replace(config.training, segment=1)
        return ActionWindows(demonstrations, config.encoder, config.augmentation, training, self.window, self.past)

    def frozen(self) -> dict[str, str]:
        return {"tokenizer": fingerprint(self.tokenizer)}
