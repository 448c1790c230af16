"""What a confidence study is made of: outcomes of episodes, replanning steps, and the figures drawn of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Measure = Literal["standing", "standing_next", "refined", "refined_next"]
Masking = Literal["low", "high"]
KEPT = "kept"  # driver: masks the least sure until the scene begins to move, then keeps its plan as it is
Kind = Literal["code", "action"]  # of flip: the paper's, and the one that the robot would notice


@dataclass(frozen=True)
class Outcome:
    env: str
    driver: str  # what drove the robot: atr masks the least sure tokens, inverse the surest, or KEPT
    seed: int
    success: bool
    steps: int


@dataclass(frozen=True)
class Replan:
    """One replanning step of an episode. Confidences are means over tokens, None where there are none."""

    env: str
    driver: str
    seed: int
    replan: int  # 1 is the first plan
    step: int  # control steps taken
    standing: float | None  # pending tokens of the plan as it stood, under the new observation
    standing_next: float | None  # those of them that are executed before the next replanning
    refined: float | None  # pending tokens after the edit
    refined_next: float | None
    low_masked: int  # tokens masked as the least sure, and how many came back as another code
    low_flipped: int
    low_flipped_action: int  # masked ones whose decoded actions changed by more than `ConfidenceStudy.action_change`
    high_masked: int  # the same plan and observation, the surest masked instead
    high_flipped: int
    high_flipped_action: int


class Flips(NamedTuple):
    flipped: int
    masked: int

    @property
    def rate(self) -> float:
        return self.flipped / self.masked if self.masked else float("nan")


class Curve(NamedTuple):
    """Over the replanning steps at which some episode is still running."""

    replans: list[int]
    mean: list[float]
    low: list[float]  # quartiles of the episodes, or of a difference its mean minus and plus its standard error
    high: list[float]
