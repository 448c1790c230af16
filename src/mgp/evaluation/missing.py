"""Which observations are withheld from a policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mgp.errors import ConfigError

STREAM = 0x6D697373  # keeps these draws apart from those of whoever else uses the episode's seed


@dataclass(frozen=True)
class Missing:
    """Observations that do not arrive, drawn for each control cycle by (episode seed, cycle); the first always comes.

    A control cycle is one round of looking, planning and executing `execution_horizon` steps, with an observation or
    without: a short-horizon policy that is not given one holds for a whole clip, then is asked again. So `probability`
    is the share of time without sensing, whatever a policy does then (holding a single step instead would cost a clip
    of 8 an eighth of that), and after a gap all the frames it sees show a robot that stood still, as the paper says
    ("dropouts yield static ... point clouds"). A policy with a plan executes that for as long.
    """

    probability: float = 0.0  # that the observation of a cycle is withheld
    burst: int = 1  # cycles a dropout lasts; dropouts may run into each other, the probability stays
    lost_from: int | None = None  # control step from which on nothing arrives any more

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise ConfigError(f"missing probability={self.probability}: give a value from 0 to 1")
        if self.burst < 1:
            raise ConfigError(f"missing burst={self.burst}: a dropout lasts 1 control cycle or more")
        if self.burst > 1 and self.probability == 0:
            raise ConfigError(f"missing burst={self.burst} with probability=0 withholds nothing: give a probability")
        if self.lost_from is not None and self.lost_from < 1:
            raise ConfigError(f"missing lost_from={self.lost_from}: step 0 always arrives, give 1 or more, or None")

    def __bool__(self) -> bool:
        return self.probability > 0 or self.lost_from is not None

    def arrives(self, seed: int, cycle: int, step: int) -> bool:
        """Whether the observation of a control cycle, which begins after `step` control steps, arrives."""
        if cycle == 0:
            return True
        if self.lost_from is not None and step >= self.lost_from:
            return False
        if self.probability == 0:
            return True
        # A dropout covers this cycle if it begins in it or up to burst - 1 before, maybe before the episode. Each
        # begins with the probability that makes the share of covered cycles the one asked for.
        begins = 1 - (1 - self.probability) ** (1 / self.burst)
        keys = [(start % 2**32) for start in range(cycle - self.burst + 1, cycle + 1)]
        return all(np.random.default_rng([STREAM, seed, key]).random() >= begins for key in keys)

    def options(self) -> dict[str, int]:
        """Beside the probability, what differs from the default, by the names of the command line."""
        pairs = {"missing_burst": self.burst if self.burst > 1 else None, "missing_from": self.lost_from}
        return {name: value for name, value in pairs.items() if value is not None}


NONE = Missing()
