"""Pick and place in Meta-World's world, to a goal whose marker is shown for a moment, an object that is moved once.

The marker is at one of four places for the first steps and gone from then on, in clouds, pictures and state, so that
no later observation tells the goal. In `pick-place-cue` the object is then moved before it is grasped, in seven
episodes of ten: the goal is only in the past, the place only in the present. In `pick-place-cue-still` it stays.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from mgp.envs.base import Observation
from mgp.envs.checks import check_options
from mgp.envs.metaworld import MetaWorldEnv
from mgp.envs.nudge import is_nudged, nudge_random
from mgp.errors import UnknownNameError

TASKS = ("pick-place-cue", "pick-place-cue-still")
HORIZON = 150
GOALS = np.array([(x, 0.88, z) for x, z in product((-0.13, 0.13), (0.08, 0.30))])  # (4, 3) left, right; low, high
JITTER = 0.015  # metres, of the goal round its place
RADIUS = 0.07  # metres from a goal at which Meta-World has the object there; no two of these spheres meet
CUE_STREAM = 0x637565  # keeps the goal's draws apart from Meta-World's of the object
SHOWN = 10  # control steps
GONE = (0.0, 0.0, -10.0)  # where a marker is that is not shown
OBJECT = slice(9, 12)  # in qpos
STEPS = (SHOWN + 1, 24)  # the object is moved before one of these control steps
SHIFT = (0.05, 0.08)  # metres, in any direction that keeps it
AREA = np.array([(-0.11, 0.59), (0.11, 0.71)])  # in here: where objects start, and a centimetre round it
# A hand lower and nearer than this is about to grasp: the object is moved then at the latest, or who is quick would be
# spared. The fingers end 4.5 cm below the hand.
LOW, NEAR = 0.09, 0.04  # metres from the object, up and sideways


def tasks() -> list[str]:
    return list(TASKS)


def make(task: str, observation: str = "cloud", **options: Any) -> CueEnv:
    check_options(MetaWorldEnv, "metaworld", options)
    return CueEnv(task, observation, **options)


class CueEnv(MetaWorldEnv):
    """The object at one of the other goals ends the episode, as the wrong basket does: nobody can try them all."""

    def __init__(self, task: str, observation: str = "cloud", **options: Any):
        if task not in TASKS:
            raise UnknownNameError("metaworld-memory task", task, TASKS)
        super().__init__("pick-place", observation, **{"horizon": HORIZON} | options)
        self.task, self.name = task, f"metaworld-memory/{task}"
        self.static_twin = f"metaworld-memory/{TASKS[1]}" if task == TASKS[0] else None
        self._widen_goals()
        self.cue = 0  # which of GOALS
        self.recalled = np.zeros(3)  # where the expert takes the goal to be
        self._marked = True
        self._moves_at = 0  # the control step before which the object is moved
        self._moved_to = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Observation, dict]:
        self._marked, self.shifted_at = True, None
        return super().reset(seed=seed, options=options)

    def _lay_out(self) -> None:
        """The object is where Meta-World's pick-place has it for this seed; the goal is drawn anew."""
        random = np.random.default_rng([CUE_STREAM, self._seed])
        self.cue = int(random.integers(len(GOALS)))
        goal = GOALS[self.cue] + random.uniform(-JITTER, JITTER, 3)
        self._sim._target_pos = self._sim.model.site("goal").pos = self.recalled = goal
        assert self._state is not None
        self._state = np.concatenate([self._state[:-3], goal])
        random = nudge_random(self._seed)
        self._moves_at = int(random.integers(STEPS[0], STEPS[1] + 1))
        self._moved_to = _shifted(self._state[4:6], random)

    def forget(self, random: np.random.Generator) -> None:
        """From now on the expert takes one of the goals, drawn by chance, for the one that was marked."""
        self.recalled = GOALS[random.integers(len(GOALS))]

    def _before_step(self, step: int) -> None:
        self._marked = step < SHOWN
        if self.shifted_at is None and self.task == TASKS[0] and is_nudged(self._seed) and self._is_due(step):
            self._sim.data.qpos[OBJECT][:2] = self._moved_to
            self.shifted_at = self._steps

    def _is_due(self, step: int) -> bool:
        assert self._state is not None
        above = self._state[:3] - self._state[4:7]  # of the hand over the object
        about_to_grasp = above[2] < LOW and np.hypot(*above[:2]) < NEAR
        return step >= self._moves_at or (step >= STEPS[0] and bool(about_to_grasp))

    def _place_markers(self) -> None:
        super()._place_markers()
        if not self._marked:
            self._sim.data.site("goal").xpos[:] = GONE

    def advance(self, action: np.ndarray) -> tuple[float, bool, bool, dict[str, Any]]:
        reward, _, truncated, info = super().advance(action)
        assert self._state is not None
        near = np.linalg.norm(GOALS - self._state[4:7], axis=1) < RADIUS
        wrong = bool(np.delete(near, self.cue).any())
        info |= {"wrong": wrong, "shifted": self.shifted_at is not None}
        return reward, wrong, truncated, info

    def observe(self) -> Observation:
        seen = super().observe()
        if self.observation == "state" and not self._marked:
            seen["state"][-3:] = 0
        return seen

    def _expert_state(self) -> np.ndarray:
        return np.concatenate([super()._expert_state()[:-3], self.recalled])


def _shifted(place: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A place (2,) so far from another, and inside of the area."""
    while True:
        angle, length = random.uniform(0, 2 * np.pi), random.uniform(*SHIFT)
        moved = place + length * np.array([np.cos(angle), np.sin(angle)])
        if (moved >= AREA[0]).all() and (moved <= AREA[1]).all():
            return moved
