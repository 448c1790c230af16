"""Plans for several drivers of one policy, made as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgp.policies.base import Chunk, Frame, Memory
from mgp.policies.driver import Driver


def make_together(drivers: Sequence[Driver]) -> list[Chunk] | None:
    """A chunk for each, to be joined or refused; None where the policy must be asked for each alone."""
    policy = drivers[0].policy
    memory = policy.together([driver.memory for driver in drivers])
    if memory is None:
        return None
    asked: list[Driver] = []
    try:
        for driver in drivers:
            driver.ask()
            asked.append(driver)
        actions, run, *_ = policy.plan(*_looks(drivers, memory))
    except BaseException:
        for driver in asked:
            driver.fail()
        raise
    ends = np.cumsum([len(driver.histories) for driver in drivers])
    return [Chunk(rows, run) for rows in np.split(actions, ends[:-1])]


def _looks(drivers: Sequence[Driver], memory: Memory) -> tuple[Frame, Memory, np.ndarray]:
    """What all of them see, as one batch."""
    looks = [driver.looks() for driver in drivers]
    there = [key for key in drivers[0].policy.observation_shapes if all(key in seen for seen, _ in looks)]
    batch: dict[str, Any] = {key: np.concatenate([seen[key] for seen, _ in looks]) for key in there}
    if all("instruction" in seen for seen, _ in looks):
        batch["instruction"] = [text for seen, _ in looks for text in seen["instruction"]]
    return batch, memory, np.concatenate([observed for _, observed in looks])
