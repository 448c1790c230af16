"""Statistics of success rates, each with the unit that it counts.

- `wilson`: episodes of one policy. Over several trainings pooled it still counts episodes, as if each were of a policy
  of its own: trainings on the same episodes are not that, so it is too narrow for a claim about the *method*.
- `over_trainings`: the training seed is the unit, which is what a claim about a method needs.
- `sign_test`: two policies on the same episodes; what is common to both, hard and easy episodes, drops out.
- `auroc`: how well a figure of an episode tells the failed ones from the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mgp.errors import ConfigError


def wilson(successes: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's score interval of a proportion; honest at 0 and 1 and for few episodes, unlike the normal one."""
    if not 0 <= successes <= n:
        raise ConfigError(f"{successes} successes of {n} episodes: successes must lie between 0 and the episodes")
    if n == 0:
        return 0.0, 1.0  # nothing was seen: every rate is possible
    rate, spread = successes / n, z * z / n
    centre = (rate + spread / 2) / (1 + spread)
    half = math.sqrt(rate * (1 - rate) * spread + spread * spread / 4) / (1 + spread)
    # at 0 and n one end is exactly 0 or 1; rounding must not say otherwise
    return 0.0 if successes == 0 else centre - half, 1.0 if successes == n else centre + half


def over_trainings(rates: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Student's t interval of the mean rate, one rate a training seed, clipped to [0, 1].

    None of a single training, and where all rates are equal: an interval without width claims what three trainings
    cannot show. It takes rates for normally distributed, which they are not near 0 and 1.
    """
    if wrong := [rate for rate in rates if not 0 <= rate <= 1]:
        raise ConfigError(f"success rate {wrong[0]} lies outside 0 to 1: give shares of the episodes")
    if len(set(rates)) < 2:
        return None
    from scipy.special import stdtrit  # quantiles of Student's t; scipy is slow to import, and few need it

    quantile = float(stdtrit(len(rates) - 1, (1 + confidence) / 2))
    half = quantile * float(np.std(rates, ddof=1)) / math.sqrt(len(rates))
    mean = float(np.mean(rates))
    return max(0.0, mean - half), min(1.0, mean + half)


class Paired(NamedTuple):
    both: int
    only_first: int
    only_second: int
    neither: int
    p: float  # of a split as uneven as this or more, if both were equally good


def sign_test(first: Mapping[int, bool], second: Mapping[int, bool]) -> Paired:
    """Exact McNemar test, two-sided, of outcomes by episode seed."""
    if first.keys() != second.keys():
        alone = sorted(first.keys() ^ second.keys())
        raise ConfigError(
            f"seed {alone[0]} (one of {len(alone)}) was evaluated for one of the two only: a paired test needs the "
            "same episodes, evaluate both with the same --seed and --episodes"
        )
    counts = dict.fromkeys(((True, True), (True, False), (False, True), (False, False)), 0)
    for seed, outcome in first.items():
        counts[bool(outcome), bool(second[seed])] += 1
    both, ahead, behind, neither = counts.values()
    differing, fewer = ahead + behind, min(ahead, behind)
    tail = sum(math.comb(differing, k) for k in range(fewer + 1)) / 2**differing
    return Paired(both, ahead, behind, neither, min(1.0, 2 * tail))


def mean_of_top(rates: Iterable[float], count: int = 5) -> float:
    """The paper's figure: mean of the `count` best evaluations of a training run. Optimistic: selected on the test."""
    best = sorted(rates, reverse=True)[:count]
    if not best:
        raise ConfigError("no success rates were given: evaluate at least once")
    return sum(best) / len(best)


def auroc(scores: Sequence[float], failed: Sequence[bool]) -> float | None:
    """The chance that a failed episode has a lower score than one that succeeded, ties count half; 0.5 tells nothing.

    None where one of the two kinds is missing.
    """
    values, bad = np.asarray(scores, float), np.asarray(failed, bool)
    if not bad.any() or bad.all():
        return None
    low, high = values[bad][:, None], values[~bad][None]
    return float(((low < high) + 0.5 * (low == high)).mean())
