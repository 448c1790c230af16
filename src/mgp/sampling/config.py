"""How a masked transformer is sampled: every option may be changed without training again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mgp.config import Sampling, fraction, not_negative, positive
from mgp.errors import ConfigError


@dataclass(frozen=True)
class SamplingConfig(Sampling):
    temperature: float = 0.0  # of Gumbel-max; 0 = argmax
    refine_steps: int = 2  # r: rounds of fill-in and re-mask
    mask_ratio: float = 0.7  # Long: share of the unexecuted tokens that ATR re-masks
    scoring: Literal["atr", "reuse", "random", "inverse"] = "atr"  # which tokens look unsure; inverse masks the surest
    # Long: how ATR scores a token under a new observation (scores.py): by its probability (the paper's), or
    # from the rest of the plan with a window round it hidden
    score: Literal["posterior", "leave-out"] = "posterior"
    window: int = 8  # tokens that leave-out hides at a time
    edit_window: int = 0  # Long: tokens from now on that a look may rewrite, the others stay and are in view; 0 = all
    # Long: a confidence is that of all codes near the one; width of the kernel in mean squared nearest-code distances
    near_codes: float = 0.0
    # Long: a look rewrites the plan only if the tokens that come next have fallen below this share of the confidence
    # they were written with; 0 = every look rewrites
    replan: float = 0.0
    see_pending: bool = False  # Long: score a token with the rest of the plan in view, or from c_t and H alone
    variant: Literal["long", "full", "no-sm"] = "long"  # full: never replan; no-sm: re-mask all that is unexecuted

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "refine_steps", "window")
        fraction(self, "mask_ratio")
        not_negative(self, "near_codes", "replan", "edit_window")
        if not self.temperature >= 0:
            raise ConfigError(f"temperature = {self.temperature}: must be 0 (argmax) or above")
