"""Meta-World tasks in which goals, walls, the hoop or the puck move along x while the robot works.

As in the paper's appendix "Dynamic Environments Set up", and the hoop of its confidence study, which starts to move
halfway. The durations given there (67 steps: 6.7 s, 100 steps: 10 s) say how "steps 1-67" and "steps 0-100" are meant:
as many equal moves, the first before the first control step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mgp.envs.base import Observation
from mgp.envs.checks import check_options
from mgp.envs.metaworld import MetaWorldEnv
from mgp.envs.scene import ROBOT
from mgp.errors import UnknownNameError

PUCK_X = 9  # in qpos: the free joint after the arm's and the gripper's
PUCK = slice(4, 7)  # in the state
# Metres ahead of a moving puck at which its expert aims, since the hand lags behind. Of seeds 0 to 9 it solves 5
# without; of 0 to 19, where this was chosen, 20 with 10 mm, 19 with 15, 18 with 20; of 100 to 129 all with 10 or 15.
LEAD = 0.010


@dataclass(frozen=True)
class Motion:
    """What of a Meta-World task moves, how far and when; exactly linear in the control steps taken."""

    task: str
    distance: float  # metres along x in all
    end: int  # control steps taken when it stops
    start: int = 0  # control steps taken when it begins
    goal: bool = False  # move the goal and its marker
    body: str | None = None  # move this body
    puck: bool = False  # carry the object along
    either_way: bool = False  # to +x or -x, with equal probability

    def offset(self, steps: int) -> float:
        """Metres from the place at reset after so many control steps."""
        return self.distance * min(max((steps - self.start) / (self.end - self.start), 0.0), 1.0)


MOTIONS = {
    "basketball": Motion("basketball", 0.10, 100, body="basket_goal"),
    # The expert has scored by step 85 to 105, which ends a rollout: its middle is here, while the ball is on its way.
    # From step 100 on a hoop would move for nobody.
    "basketball-midway": Motion("basketball", 0.10, 150, start=50, body="basket_goal"),
    "pick-place-wall-target": Motion("pick-place-wall", 0.14, 67, goal=True, either_way=True),
    "pick-place-wall-wall": Motion("pick-place-wall", -0.20, 200, body="wall"),
    "push": Motion("push", 0.10, 67, goal=True, puck=True),
    "push-wall": Motion("push-wall", 0.08, 67, goal=True, body="wall"),
}


def tasks() -> list[str]:
    return list(MOTIONS)


def make(task: str, observation: str = "cloud", **options: Any) -> DynamicMetaWorldEnv:
    check_options(MetaWorldEnv, "metaworld", options)
    return DynamicMetaWorldEnv(task, observation, **options)


class DynamicMetaWorldEnv(MetaWorldEnv):
    """A Meta-World task whose scene moves; a seed draws the same start as in the static task.

    Of push the appendix has the object move with the goal. The puck does so until the robot first touches it: from then
    on it is the robot's to move, or it would be torn out of the gripper.
    """

    def __init__(self, task: str, observation: str = "cloud", **options: Any):
        if task not in MOTIONS:
            raise UnknownNameError("metaworld-dynamic task", task, MOTIONS)
        self.motion = MOTIONS[task]
        super().__init__(self.motion.task, observation, **options)
        self.name = f"metaworld-dynamic/{task}"
        self.moves_from, self.static_twin = self.motion.start, f"metaworld/{self.motion.task}"
        self._widen_goals()
        self._body_home = self._sim.model.body(self.motion.body).pos.copy() if self.motion.body else np.zeros(3)
        self._goal_home = np.zeros(3)
        self._sign = 1
        self._touched = False

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Observation, dict]:
        sim, motion = self._sim, self.motion
        if motion.body:  # Meta-World leaves a wall where it is
            sim.model.body(motion.body).pos = self._body_home
        first = super().reset(seed=seed, options=options)
        if motion.body:  # a hoop is put up anew
            self._body_home = sim.model.body(motion.body).pos.copy()
        self._goal_home = sim._target_pos.copy()
        # the simulator's generator has just drawn the goal from the seed, so this is seeded too
        self._sign = -1 if motion.either_way and sim.np_random.random() < 0.5 else 1
        self._touched = False
        return first

    @property
    def offset(self) -> float:
        """Metres along x that the scene has moved so far."""
        return self._sign * self.motion.offset(self._steps)

    def _before_step(self, step: int) -> None:
        sim, motion = self._sim, self.motion
        offset = np.array([self._sign * motion.offset(step), 0, 0])
        if motion.goal:
            sim._target_pos = self._goal_home + offset  # for reward, success and state
            sim.model.site("goal").pos = sim._target_pos  # for the eye
        if motion.body:
            sim.model.body(motion.body).pos = self._body_home + offset
        if motion.puck:
            self._touched = self._touched or self._touching()
            if not self._touched:
                sim.data.qpos[PUCK_X] += motion.offset(step) - motion.offset(step - 1)

    def _touching(self) -> bool:
        """Whether any part of the robot is in contact with the puck."""
        model, data = self._sim.model, self._sim.data
        pairs = data.contact.geom[: data.ncon]
        pairs = pairs[(pairs == model.geom("objGeom").id).any(1)]
        roots = model.body_rootid[model.geom_bodyid[pairs]]
        return bool((roots == model.body(ROBOT).id).any())

    def _expert_state(self) -> np.ndarray:
        state = super()._expert_state()
        if not self.motion.puck or self._touched or self._steps >= self.motion.end:
            return state
        state = state.copy()
        state[PUCK][0] += LEAD
        return state
