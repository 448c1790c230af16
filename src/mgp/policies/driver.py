"""Who drives a policy through episodes: the frames seen so far, the gaps between them, and the chunk in hand.

`Policy.act`, evaluation, controllers and servers all drive this way, so that a policy acts alike in all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from mgp.errors import ObservationError
from mgp.policies.base import Chunk, Frame, Policy, check_observation

FIRST_MISSING = "the first observation of an episode is missing: wait for one before acting"


class History:
    """The newest frames of one episode, oldest first, and its first one if that is wanted."""

    def __init__(self, length: int, first: bool):
        self.newest: deque[Frame] = deque(maxlen=length)
        self.first: list[Frame] | None = [] if first else None
        self.gap = False  # the newest frame is from before a gap

    def push(self, frame: Frame) -> None:
        """The first frame, and one after a gap, stand for those before: frames from before it are no history."""
        if self.gap or not self.newest:
            self.newest.extend([frame] * (self.newest.maxlen or 0))
        self.gap = False
        self.newest.append(frame)
        if self.first == []:
            self.first.append(frame)

    def miss(self) -> None:
        self.gap = True

    def frames(self) -> list[Frame]:
        return [*(self.first or ()), *self.newest]


class Driver:
    """B episodes in lock step. For each step: `see` or `miss` a frame of every row, `plan` when `due`, `take`."""

    def __init__(self, policy: Policy, seeds: Sequence[int]):
        self.policy = policy
        self.memory = policy.begin(seeds)
        self.histories = [History(policy.history, policy.first) for _ in seeds]
        self.chunk: Chunk | None = None
        self.taken = 0  # actions of the chunk that were run

    @property
    def due(self) -> bool:
        """Whether the next action needs a new plan."""
        return self.chunk is None or self.taken >= self.chunk.run

    def wants(self, left: int) -> bool:
        """Whether the next plan sees a frame after which `left` actions are still to run; a look may be dear."""
        return left < self.policy.history and bool(self.policy.observation_shapes)

    def see(self, row: int, frame: Frame) -> None:
        self.histories[row].push(frame)

    def miss(self, row: int) -> None:
        self.histories[row].miss()

    def plan(self) -> Chunk:
        """A new chunk for every row, from the newest frames."""
        return self.adopt(self.make())

    def make(self) -> Chunk:
        """The chunk that `plan` would run; the one in hand goes on until it is adopted."""
        observation, observed = self.looks()
        executed = self.taken if self.chunk is not None else None
        return self.policy.plan(observation, self.memory, observed, executed)

    def looks(self) -> tuple[Frame, np.ndarray]:
        """Frames (B, H, ...) of each key as a plan sees them, and which rows have one (B,)."""
        keys = self.policy.observation_shapes
        if keys and not all(history.newest for history in self.histories):
            raise ObservationError(FIRST_MISSING)
        rows = [history.frames() for history in self.histories]
        there = [key for key in keys if all(key in frame for row in rows for frame in row)]  # the policy refuses others
        batch = {key: np.stack([[frame[key] for frame in row] for row in rows]) for key in there}  # (B, H, ...)
        texts = [row[-1].get("instruction") for row in rows if row]
        instruction = {"instruction": texts} if texts and texts[0] is not None else {}
        return {**batch, **instruction}, np.array([not history.gap for history in self.histories])

    def adopt(self, chunk: Chunk) -> Chunk:
        """Run this chunk from its first action on."""
        self.chunk, self.taken = chunk, 0
        return chunk

    def take(self, count: int = 1) -> np.ndarray:
        """The next actions of every row (B, count, A)."""
        assert self.chunk is not None, "plan first"
        actions = self.chunk.actions[:, self.taken : self.taken + count]
        self.memory.last = actions[:, -1]
        self.taken += count
        return actions

    def act(self, frame: Frame | None) -> np.ndarray:
        """For one robot: a frame in, None if it did not arrive, an action (A,) out."""
        if frame is None:
            self.miss(0)
        else:
            seen = self.policy.seen(frame)
            check_observation(seen, self.policy.observation_shapes, uint8=self.policy.observation_uint8)
            kept = {key: np.array(value) for key, value in seen.items()}  # a robot may reuse arrays
            if "instruction" in frame:
                kept["instruction"] = frame["instruction"]
            self.see(0, kept)
        if self.due:
            self.plan()
        return self.take()[0, 0].copy()
