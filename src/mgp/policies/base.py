"""The contract of a policy, learned or not.

A policy serves a batch of B episodes in lock step and keeps nothing of them itself: `begin` makes a memory of them,
and each `plan` takes the frames that were seen, gives a whole chunk of actions, and says how much of it to run. Who
drives (`driver.py`) owns frames, gaps and the chunk in hand. `act` is the same for one robot, frame by frame.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mgp.errors import ObservationError

if TYPE_CHECKING:
    from mgp.policies.driver import Driver

Frame = Mapping[str, Any]  # an array for each key of an observation; "instruction" is a text


@dataclass(frozen=True)
class PlanTrace:
    """What a planning policy thought in one episode: R replanning steps by N tokens."""

    executed: np.ndarray  # (R,) tokens executed before this step
    tokens: np.ndarray  # (R, N) the plan after the step
    confidence: np.ndarray  # (R, N) posterior confidence of each token of the plan under the step's observation
    masked: np.ndarray  # (R, N) 0 = kept, k = masked in k refinement passes; a missing observation leaves 0


class Chunk(NamedTuple):
    actions: np.ndarray  # (B, T, A) all that is planned from now on, in the environment's units
    run: int  # how many of them to run before the next plan
    confidence: np.ndarray | None = None  # (B,) 0 to 1, of what comes next; NaN: no word; None: it never says


class Committed(NamedTuple):
    """What is settled when a plan is asked for that will be there later: the robot does not wait for it."""

    actions: np.ndarray  # (B, P + R, A) the last P commands, P = `Policy.past`, and the R that are in hand
    ahead: int  # of those in hand, the first so many are run before the plan is there


@dataclass
class Memory:
    """What a policy keeps of B episodes. A policy that keeps more extends it."""

    seeds: tuple[int, ...]
    last: np.ndarray  # (B, A) the last command each robot was given; the driver writes it down
    traced: bool = field(default=True, kw_only=True)  # whether a record is made for `Policy.trace`; it grows
    committed: Committed | None = field(default=None, kw_only=True)  # the driver's too; None: nothing runs meanwhile


class Policy(ABC):
    history: int  # newest frames wanted at each plan, oldest first
    first: bool = False  # whether the first frame of the episode is wanted before them
    past: int = 0  # commands from before now that a plan begins with
    beat: int = 1  # it looks best after a multiple of so many actions
    execution_horizon: int  # actions of a chunk that are run
    observation_shapes: dict[str, tuple[int, ...]]  # of one frame, e.g. {"state": (9,), "cloud": (512, 3)}
    observation_uint8: Collection[str] | None = None  # keys that come in bytes, as images do; None: not known

    @property
    def frames(self) -> int:
        """H: frames of each episode that `plan` is given."""
        return self.history + self.first

    @abstractmethod
    def begin(self, seeds: Sequence[int]) -> Memory:
        """Start len(seeds) episodes. An episode's randomness depends on its seed only, not on its neighbours."""

    @abstractmethod
    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        """Frames (B, H, ...) of each key to a chunk.

        `observed` (B,) bool: False where no observation arrived; that row's frames are not looked at. `executed`: the
        actions run since the last plan was asked for, if not as many as that one said. If `memory.committed` says that
        actions in hand are run before this plan is there, a policy that can begins its plan with them; the chunk
        starts now in any case, and who drives skips what has passed. If it raises, the memory is as it was.
        """

    def together(self, memories: Sequence[Memory]) -> Memory | None:
        """One memory for the rows of several, so that their plans can be made as one batch, whenever each began.

        None where a plan also depends on what was planned before: then each memory is planned for alone.
        """
        return None

    def joined(self, memory: Memory, chunk: Chunk, passed: int, rest: np.ndarray) -> Chunk:
        """The chunk that was planned last is run from its action `passed` on: what to run, and a note for the memory.

        `rest` (B, R, A) is how the chunk before would have gone on. Called by whoever drives, quick, never in a plan.
        """
        return chunk

    def refused(self, memory: Memory) -> None:
        """The chunk that was planned last is not run at all: the one before goes on."""
        return None

    def trace(self, memory: Memory, episode: int) -> PlanTrace | None:
        """The record of one episode, for policies that keep a plan, if its memory is `traced`."""
        return None

    def reset(self, seeds: Sequence[int] = (0,)) -> Driver:
        """A driver for new episodes; `act` uses it."""
        from mgp.policies.driver import Driver  # which imports this module

        self.driver = Driver(self, seeds)
        return self.driver

    def act(self, observation: Frame | None) -> np.ndarray:
        """One frame in (None: it did not arrive), one action (A,) out. Call `reset` before each episode."""
        if not hasattr(self, "driver"):
            self.reset()
        return self.driver.act(observation)

    def seen(self, frame: Frame) -> dict[str, np.ndarray]:
        """What the policy looks at of an observation; keys may be missing, and `check_observation` says so."""
        return {key: np.asarray(frame[key]) for key in self.observation_shapes if key in frame}

    def copied(self, frame: Frame) -> dict[str, Any]:
        """The same and the instruction, to keep: a robot may use its arrays again."""
        kept: dict[str, Any] = {key: np.array(value) for key, value in self.seen(frame).items()}
        return {**kept, **({"instruction": frame["instruction"]} if "instruction" in frame else {})}


def check_observation(
    observation: Frame,
    shapes: Mapping[str, tuple[int, ...]],
    leading: int = 0,
    uint8: Collection[str] | None = None,
) -> None:
    """Refuse what must not reach the model. `leading` batch axes stand before a frame's own shape."""
    for key, shape in shapes.items():
        if key not in observation:
            raise ObservationError(f"observation has no {key!r} (it has {sorted(observation)}): record that sensor")
        value = np.asarray(observation[key])
        if value.shape[leading:] != tuple(shape):
            raise ObservationError(
                f"{key!r} has shape {value.shape[leading:]}, the policy was trained on {tuple(shape)}"
            )
        if value.dtype.kind not in "fiu":
            raise ObservationError(f"{key!r} has dtype {value.dtype}; numbers are needed")
        if uint8 is not None and (value.dtype == np.uint8) != (key in uint8):
            trained = "bytes, 0 to 255" if key in uint8 else "numbers that are no bytes"
            raise ObservationError(
                f"{key!r} has dtype {value.dtype}, the policy was trained on {trained}: give it as it was recorded"
            )
        if not np.isfinite(value).all():
            raise ObservationError(f"{key!r} contains NaN or Inf: treat the frame as missing (pass None) instead")
