"""Who drives a policy through episodes: the frames seen so far, the gaps between them, and the chunk in hand.

`Policy.act`, evaluation, controllers and servers all drive this way, so that a policy acts alike in all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from mgp.errors import ObservationError
from mgp.policies.base import Chunk, Committed, Frame, Policy, check_observation

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
    """B episodes in lock step. For each step: `see` or `miss` a frame of every row, `plan` when `due`, `take`.

    Who does not wait for a plan has `ask` in place of `plan`: the plan is made elsewhere, while actions are taken, and
    joins when it is there.
    """

    def __init__(self, policy: Policy, seeds: Sequence[int], trace: bool = False):
        """`trace`: a record is made for `policy.trace`."""
        self.policy = policy
        self.memory = policy.begin(seeds)
        self.memory.traced = trace
        self.histories = [History(policy.history, policy.first) for _ in seeds]
        self.chunk: Chunk | None = None
        self.taken = 0  # actions of the chunk that were run, or passed before it came; more than it has: it coasts
        self.run = 0  # actions that were run in all
        self.since: int | None = None  # actions run since the last plan was asked for; None before the first
        self.before: int | None = None  # what `since` was until then
        self.asked = False  # a plan is being made; until it is there the memory is its, and nobody else's
        self.given = deque([self.memory.last] * max(policy.past, 1), maxlen=max(policy.past, 1))  # commands (B, A)

    @property
    def due(self) -> bool:
        """Whether the next action needs a new plan."""
        return self.chunk is None or self.taken >= self.chunk.run

    @property
    def left(self) -> int:
        """Actions in hand, also those that `Chunk.run` does not ask for."""
        return 0 if self.chunk is None else max(self.chunk.actions.shape[1] - self.taken, 0)

    def wants(self, left: int) -> bool:
        """Whether the next plan sees a frame after which `left` actions are still to run; a look may be dear."""
        return left < self.policy.history and bool(self.policy.observation_shapes)

    def see(self, row: int, frame: Frame) -> None:
        self.histories[row].push(frame)

    def miss(self, row: int) -> None:
        self.histories[row].miss()

    def plan(self) -> Chunk:
        """A new chunk for every row, from the newest frames."""
        return self.join(self.make())

    def make(self) -> Chunk:
        """The chunk that `plan` would run, now; then `join` or `refuse` it. Until then the one in hand goes on."""
        make = self.ask()
        try:
            return make()
        except BaseException:
            self.fail()
            raise

    def ask(self, ahead: int = 0) -> Callable[[], Chunk]:
        """A call that makes a new chunk from the frames of now, in whatever thread; then `join`, `refuse` or `fail`.

        `ahead`: so many actions in hand will be run before it is there, and beyond them the last one again (`coast`).
        One plan at a time may be asked for.
        """
        assert not self.asked, "one plan at a time"
        observation, observed = self.looks()
        self.memory.committed = self._committed(ahead)
        executed, self.before, self.since, self.asked = self.since, self.since, 0, True
        return partial(self.policy.plan, observation, self.memory, observed, executed)

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

    def _committed(self, ahead: int) -> Committed | None:
        if self.chunk is None or ahead == 0:
            return None
        past = [command[:, None] for command in self.given][len(self.given) - self.policy.past :]
        coasting = [self.chunk.actions[:, -1:]] * (ahead - self.left)
        return Committed(np.concatenate([*past, self.chunk.actions[:, self.taken :], *coasting], axis=1), ahead)

    def join(self, chunk: Chunk, naive: bool = False) -> Chunk:
        """Go on with the chunk that was asked for, from where the robot has come to by now.

        `naive`: with its own next action, whatever the policy would do about the seam.
        """
        assert self.since is not None, "ask first"
        self._answered()
        if self.chunk is not None and self.since:
            joined = self.policy.joined(self.memory, chunk, self.since, self.chunk.actions[:, self.taken :])
            chunk = chunk if naive else joined
        self.chunk, self.taken = chunk, self.since
        return chunk

    def refuse(self) -> None:
        """The chunk that was asked for is there, but is not run: the one in hand goes on."""
        self._answered()
        self.policy.refused(self.memory)

    def fail(self) -> None:
        """The chunk that was asked for could not be made: as if nobody had asked."""
        self._answered()
        self.since = None if self.before is None else self.before + (self.since or 0)

    def _answered(self) -> None:
        self.asked, self.memory.last = False, self.given[-1]

    def take(self, count: int = 1) -> np.ndarray:
        """The next actions of every row (B, count, A)."""
        assert self.chunk is not None, "plan first"
        assert self.since is not None
        actions = self.chunk.actions[:, self.taken : self.taken + count]
        for command in actions.swapaxes(0, 1):
            self.give(command)
        self.taken += count
        self.since += count
        self.run += count
        return actions

    def coast(self) -> np.ndarray:
        """(B, A): the chunk is over, and its last action is run again."""
        assert self.chunk is not None, "plan first"
        assert self.since is not None
        last = self.chunk.actions[:, -1]
        self.give(last)
        self.taken += 1
        self.since += 1
        self.run += 1
        return last

    def amend(self, command: np.ndarray) -> None:
        """Another command (B, A) was given than the last action that was taken."""
        self.given.pop()
        self.give(command)

    def give(self, command: np.ndarray) -> None:
        """Write down a command (B, A), also one that is no action of the chunk."""
        self.given.append(command)
        if not self.asked:
            self.memory.last = command

    def act(self, frame: Frame | None) -> np.ndarray:
        """For one robot: a frame in, None if it did not arrive, an action (A,) out."""
        if frame is None:
            self.miss(0)
        else:
            seen = self.policy.seen(frame)
            check_observation(seen, self.policy.observation_shapes, uint8=self.policy.observation_uint8)
            self.see(0, self.policy.copied(frame))
        if self.due:
            self.plan()
        return self.take()[0, 0].copy()
