"""The policy contract, shared by MGP and every baseline.

A policy serves a batch of B episodes in lock step: `reset` starts them, then each `plan` takes the newest `history`
frames of every episode and returns the next `execution_horizon` actions. `act` is the same for one robot, frame by
frame.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mgp.errors import ObservationError


@dataclass(frozen=True)
class PlanTrace:
    """What a planning policy thought in one episode: R replanning steps by N tokens."""

    executed: np.ndarray  # (R,) tokens executed before this step
    tokens: np.ndarray  # (R, N) the plan after the step
    confidence: np.ndarray  # (R, N) posterior confidence of each token of the plan under the step's observation
    masked: np.ndarray  # (R, N) 0 = kept, k = masked in k refinement passes; a missing observation leaves 0


class Policy(ABC):
    history: int  # frames wanted at each plan, oldest first
    execution_horizon: int  # actions returned by each plan
    observation_shapes: dict[str, tuple[int, ...]]  # of one frame, e.g. {"state": (9,), "cloud": (512, 3)}

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> None:
        """Begin len(seeds) episodes. An episode's randomness depends on its seed only, not on its neighbours."""

    @abstractmethod
    def plan(self, observation: dict[str, np.ndarray], observed: np.ndarray | None = None) -> np.ndarray:
        """Frames (B, history, ...) of each key to actions (B, execution_horizon, A), in the environment's units.

        `observed` (B,) bool: False where no observation arrived; that row's frames are not looked at.
        """

    @abstractmethod
    def save(self, folder: Path) -> None: ...

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Policy: ...

    def trace(self, episode: int) -> PlanTrace | None:
        """The record of one episode since `reset`, for policies that keep a plan."""
        return None

    def act(self, observation: dict[str, np.ndarray] | None) -> np.ndarray:
        """One frame in (None: it did not arrive), one action (A,) out. Call `reset([seed])` before each episode."""
        frames: deque = self.__dict__.setdefault("_frames", deque(maxlen=self.history))
        queue: deque = self.__dict__.setdefault("_queue", deque())
        if observation is not None:
            seen = self._seen(observation)
            check_observation(seen, self.observation_shapes)
            frame = {key: np.array(seen[key]) for key in self.observation_shapes}  # a robot may reuse its arrays
            frames.extend([frame] * (self.history - len(frames)))  # the first frame stands for those before it
            frames.append(frame)
        if not queue:
            if not frames:
                raise ObservationError("the first observation of an episode is missing: wait for one before acting")
            batch = {key: np.stack([frame[key] for frame in frames])[None] for key in self.observation_shapes}
            queue.extend(self.plan(batch, np.array([observation is not None]))[0])
        return queue.popleft()

    def _seen(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What the policy looks at of an observation; keys may be missing, and `check_observation` says so."""
        return {key: np.asarray(observation[key]) for key in self.observation_shapes if key in observation}

    def _forget(self) -> None:
        """Drop the frames and actions `act` holds; `reset` calls it."""
        self.__dict__.pop("_frames", None)
        self.__dict__.pop("_queue", None)


def check_observation(observation: dict[str, np.ndarray], shapes: dict[str, tuple[int, ...]], leading: int = 0) -> None:
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
        if not np.isfinite(value).all():
            raise ObservationError(f"{key!r} contains NaN or Inf: treat the frame as missing (pass None) instead")
