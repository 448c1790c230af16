"""Statistics of success rates."""

from __future__ import annotations

import math
from collections.abc import Iterable

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


def mean_of_top(rates: Iterable[float], count: int = 5) -> float:
    """The paper's figure: mean of the `count` best evaluations of a training run. Optimistic: selected on the test."""
    best = sorted(rates, reverse=True)[:count]
    if not best:
        raise ConfigError("no success rates were given: evaluate at least once")
    return sum(best) / len(best)


def percentile(values: Iterable[float], percent: float) -> float:
    """Linear interpolation between closest ranks."""
    ordered = sorted(values)
    if not ordered:
        raise ConfigError("no values were given to take a percentile of")
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median(values: Iterable[float]) -> float:
    return percentile(values, 50)
