"""One episode of an evaluation: what is asked of it, its run through chunks of actions, and what came out."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from mgp.envs.base import RobotEnv
from mgp.errors import ConfigError
from mgp.evaluation.missing import Missing
from mgp.policies.base import PlanTrace
from mgp.policies.driver import Driver


@dataclass(frozen=True)
class Recording:
    """Pictures for people to look at, and the plan's trace, of some of the episodes."""

    seeds: tuple[int, ...]  # episodes to record
    every: int = 4  # control steps between pictures; 0 takes none, only the trace
    size: int = 200  # pixels on a side

    def __post_init__(self) -> None:
        if self.every < 0 or self.size < 1:
            raise ConfigError(f"recording every={self.every} size={self.size}: at least 0 (no pictures) and 1")


@dataclass(frozen=True)
class EpisodeResult:
    seed: int
    success: bool  # at any step
    success_step: int | None  # control steps taken when success first came, None without it
    steps: int  # control steps taken
    replans: int
    missing: int = 0  # replans whose observation was withheld
    pictures: np.ndarray | None = None  # (F, size, size, 3) uint8
    picture_steps: tuple[int, ...] = ()  # control step of each picture
    trace: PlanTrace | None = None
    end: dict[str, Any] = field(default_factory=dict)  # plain values of the last `info`: "basket", "wrong", "shifted"


class Episode:
    """Drives one environment. It looks only at the frames the next plan needs: looking means casting a point cloud."""

    def __init__(
        self,
        env: RobotEnv,
        seed: int,
        *,
        missing: Missing,
        full_length: bool,
        recording: Recording | None,
    ):
        self.env, self.seed = env, seed
        self.missing, self.full_length = missing, full_length
        self.recording = recording if recording is not None and seed in recording.seeds else None
        self.first, _ = env.reset(seed=seed)
        self.steps = self.replans = self.withheld = 0
        self.observed = True  # whether the observation of the coming replan is there: the first always is
        self.success_step: int | None = None
        self.info: dict[str, Any] = {}  # of the last step
        self.done = False
        self.pictures: list[np.ndarray] = []
        self.picture_steps: list[int] = []
        self._take_picture()

    def run(self, driver: Driver, row: int, actions: np.ndarray) -> None:
        """Advance through a chunk (T, A), showing the driver the frames that its next plan will see in this row."""
        self.withheld += not self.observed
        self.replans += 1
        end = self.steps + len(actions)
        self.observed = self.missing.arrives(self.seed, self.replans, end)
        looking = self.observed and end < self.env.horizon  # after the last chunk no plan follows, so nobody looks
        if not self.observed:
            driver.miss(row)
        for left in range(len(actions) - 1, -1, -1):
            _, terminated, truncated, info = self.env.advance(actions[-1 - left])
            self.info = info
            self.steps += 1
            if info["success"] and self.success_step is None:
                self.success_step = self.steps
                self.done = not self.full_length
            self.done = self.done or terminated or truncated or self.steps >= self.env.horizon
            self._take_picture()
            if self.done:
                return
            if looking and driver.wants(left):
                driver.see(row, self.env.observe())

    def result(self, trace: PlanTrace | None) -> EpisodeResult:
        return EpisodeResult(
            seed=self.seed,
            success=self.success_step is not None,
            success_step=self.success_step,
            steps=self.steps,
            replans=self.replans,
            missing=self.withheld,
            pictures=np.stack(self.pictures) if self.pictures else None,
            picture_steps=tuple(self.picture_steps),
            trace=None if trace is None or self.recording is None else cut(trace, self.replans),
            end={name: value for name, value in self.info.items() if isinstance(value, bool | int | str)},
        )

    def _take_picture(self) -> None:
        """At the start, at the end and every so many steps between."""
        if self.recording is None or self.recording.every == 0:
            return
        if not self.done and self.steps % self.recording.every:
            return
        with suppress(NotImplementedError):  # an environment need not have pictures
            self.pictures.append(self.env.picture(self.recording.size))
            self.picture_steps.append(self.steps)


def cut(trace: PlanTrace, replans: int) -> PlanTrace:
    """The trace up to the episode's end: its row was planned for as long as its neighbours ran."""
    return replace(trace, **{one.name: getattr(trace, one.name)[:replans] for one in fields(trace)})
