"""Settings of MGP beside the shared ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from mgp.config import choices, not_negative
from mgp.errors import ConfigError
from mgp.model.transformer import TransformerConfig
from mgp.policies.config import PolicyConfig
from mgp.sampling.config import SamplingConfig
from mgp.sampling.corruption import MaskingConfig
from mgp.tokenizer.vqvae import TokenizerConfig


@dataclass(frozen=True)
class MGPConfig(PolicyConfig):
    name: ClassVar[str] = "mgp"
    horizon: Literal["short", "long"] = "short"  # short: a fresh window at each look; long: a plan of the whole episode
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    transformer: TransformerConfig = field(default_factory=TransformerConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    # a head corrects decoded actions by what is seen (offset.py); it is trained on codes drawn this far from the right
    # ones, in mean squared nearest-code distances; 0 = none
    offset: float = 0.0
    # steps in which Long learns to see where what its plan leads to is now (gaze.py), if actions are places that clouds
    # show; 0 = never
    gaze: int = 0

    def __post_init__(self) -> None:
        choices(self)
        not_negative(self, "offset", "gaze")
        if self.gaze and self.horizon == "short":
            raise ConfigError(
                f"gaze = {self.gaze} corrects a plan of the whole episode, and horizon = 'short': set it to 0"
            )
        per, run = self.tokenizer.actions_per_token, self.sampling.execution_horizon
        if self.horizon == "long" and run % per:
            raise ConfigError(
                f"execution_horizon = {run} is no multiple of actions_per_token = {per} (Long runs tokens)"
            )
        reach = self.sampling.edit_window * per
        if self.horizon == "long" and 0 < reach < run:
            raise ConfigError(
                f"edit_window = {self.sampling.edit_window} is {reach} steps, but execution_horizon = {run} of them are"
                f" run before the next look: set it to {-(-run // per)} or more, or to 0 (all tokens)"
            )
