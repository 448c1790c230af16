"""Plans for several drivers of one policy, made as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgp.policies.base import Chunk
from mgp.policies.driver import Driver


def make_together(drivers: Sequence[Driver]) -> list[Chunk] | None:
    """A chunk for each, not yet adopted; None where the policy must be asked for each alone."""
    policy = drivers[0].policy
    memory = policy.together([driver.memory for driver in drivers])
    if memory is None:
        return None
    looks = [driver.looks() for driver in drivers]
    there = [key for key in policy.observation_shapes if all(key in observation for observation, _ in looks)]
    batch: dict[str, Any] = {key: np.concatenate([observation[key] for observation, _ in looks]) for key in there}
    if all("instruction" in observation for observation, _ in looks):
        batch["instruction"] = [text for observation, _ in looks for text in observation["instruction"]]
    actions, run = policy.plan(batch, memory, np.concatenate([observed for _, observed in looks]))
    ends = np.cumsum([len(driver.histories) for driver in drivers])
    return [Chunk(rows, run) for rows in np.split(actions, ends[:-1])]
