"""From the policy's action, a target pose of the end effector, to the actuators: carriage and inverse kinematics.

An action is six numbers: the fingertip's target x, y, z in the table's frame (metres), the direction in which the jaws
open as (cos, sin) of its angle about the vertical, and the gripper (0 closed, 1 open); the tool always points down.
It is absolute, so that one observation and one action name one place, an error does not add up over an episode of 400
steps, and holding is repeating. An angle would jump by a full turn somewhere on the rail; cosine and sine do not.
On the rail the arm is straight behind the tool, so that position and direction together say where the carriage stands
(`rail.behind`); "any place from which the target is in reach" would leave two sides of the table to choose from, and
position alone would jump from one to the other on the diagonal, where the buttons are. An action without a direction
(cos and sin both about 0, as in the zero vector) keeps the last target.
"""

from __future__ import annotations

from typing import Protocol

import mujoco
import numpy as np

from mgp.envs.so101 import rail
from mgp.envs.so101.arm import CLOSED, JOINTS, OPEN, TIP, ArmGeometry, gripper_angle

TIMESTEP, SUBSTEPS = 0.002, 25  # physics; 20 Hz control
UPDATES = 5  # of the inverse kinematics in a control step: the carriage moves on meanwhile
JOINT_SPEED = 4.0  # rad/s, about what the servos do
CARRIAGE_SPEED = 0.45  # m/s
SAFE_HEIGHT, FAR = 0.09, 0.05  # metres: the tip stays up while the target is further out of reach than FAR
LIMIT = 0.40  # metres, of targets in x and y: the table's edge
CEILING = 0.22  # metres, of targets in z
NO_DIRECTION = 0.1  # length of (cos, sin) below which they say nothing
ACTION_LOW = np.array([-LIMIT, -LIMIT, 0, -1, -1, 0], np.float32)
ACTION_HIGH = np.array([LIMIT, LIMIT, CEILING, 1, 1, 1], np.float32)


class Base(Protocol):
    """What the arm stands on."""

    def pose(self) -> tuple[np.ndarray, float]:
        """Where the pan axis is (2,) and where the arm's zero looks."""

    def aim(self, x: float, y: float, heading: float) -> None:
        """Called once a control step with the target."""

    def drive(self, fraction: float) -> None:
        """Called at each physics step with the share of the control step that has passed."""


class FixedBase:
    def __init__(self, x: float, y: float, yaw: float):
        self._pose = np.array([x, y]), yaw

    def pose(self) -> tuple[np.ndarray, float]:
        return self._pose

    def aim(self, x: float, y: float, heading: float) -> None:
        pass

    def drive(self, fraction: float) -> None:
        pass


class Carriage:
    """Position actuators of two slides and a hinge follow the rail at physics rate."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData):
        self._qpos = [int(model.joint(name).qposadr[0]) for name in ("carriage_x", "carriage_y", "carriage_yaw")]
        self._ctrl = [model.actuator(name).id for name in ("carriage_x", "carriage_y", "carriage_yaw")]
        self._data = data
        self._from = self._to = 0.0

    def put(self, s: float) -> None:
        """At once, at the start of an episode."""
        self._from = self._to = s
        self._data.qpos[self._qpos] = self._data.ctrl[self._ctrl] = rail.pose(s)

    def pose(self) -> tuple[np.ndarray, float]:
        x, y, yaw = self._data.qpos[self._qpos]
        return np.array([x, y]), float(yaw)

    def aim(self, x: float, y: float, heading: float) -> None:
        self._from = self._to
        way = rail.shorter(self._from, rail.behind(x, y, heading))
        most = CARRIAGE_SPEED * TIMESTEP * SUBSTEPS
        self._to = self._from + float(np.clip(way, -most, most))

    def drive(self, fraction: float) -> None:
        self._data.ctrl[self._ctrl] = rail.pose(self._from + fraction * (self._to - self._from))


class Controller:
    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, base: Base):
        self.model, self.data, self.base = model, data, base
        self.geometry = ArmGeometry.of(model)
        self._qpos = np.array([int(model.joint(name).qposadr[0]) for name in JOINTS])
        self._ctrl = np.array([model.actuator(name).id for name in JOINTS])
        self._tip = model.site(TIP).id
        self._target = np.zeros(5)  # x, y, z, yaw, gripper

    def put(self, action: np.ndarray) -> None:
        """The pose of an action at once, at the start of an episode; the base is where it belongs already."""
        self._target = _target(action)
        joints, _ = self.geometry.solve(*self.base.pose(), self._target[:3], self._target[3])
        self.data.qpos[self._qpos] = self.data.ctrl[self._ctrl] = [*joints, gripper_angle(self._target[4])]

    @property
    def target(self) -> np.ndarray:
        """(5,) x, y, z, yaw and gripper that were last commanded."""
        return self._target

    def advance(self, action: np.ndarray) -> None:
        """One control step of physics."""
        before = self._target
        if np.hypot(action[3], action[4]) > NO_DIRECTION:
            self._target = _target(action)
        change = self._target - before
        change[3] = (change[3] + np.pi) % (2 * np.pi) - np.pi
        self.base.aim(self._target[0], self._target[1], self._target[3])
        for step in range(SUBSTEPS):
            if step % (SUBSTEPS // UPDATES) == 0:
                self._aim_arm(before + change * min(1.0, step / SUBSTEPS + 1 / UPDATES))
            self.base.drive((step + 1) / SUBSTEPS)
            mujoco.mj_step(self.model, self.data)
        # positions of bodies and sites are those before the last integration until they are computed again
        mujoco.mj_kinematics(self.model, self.data)

    def _aim_arm(self, target: np.ndarray) -> None:
        joints, left = self.geometry.solve(*self.base.pose(), target[:3], target[3])
        if left > FAR and target[2] < SAFE_HEIGHT:  # do not sweep over the table on the way
            joints, _ = self.geometry.solve(*self.base.pose(), np.array([*target[:2], SAFE_HEIGHT]), target[3])
        most = JOINT_SPEED * TIMESTEP * SUBSTEPS / UPDATES
        now = self.data.ctrl[self._ctrl]
        wanted = np.array([*joints, gripper_angle(target[4])])
        self.data.ctrl[self._ctrl] = now + np.clip(wanted - now, -most, most)

    def state(self) -> np.ndarray:
        """(15,) fingertip position; jaws' direction and tool's direction; five joints; gripper (0 closed, 1 open)."""
        joints = self.data.qpos[self._qpos]
        matrix = self.data.site_xmat[self._tip].reshape(3, 3)
        opening = (joints[5] - CLOSED) / (OPEN - CLOSED)
        # of the site's frame z is where the jaws open to and x is along the tool
        return np.concatenate([self.data.site_xpos[self._tip], matrix[:, 2], matrix[:, 0], joints[:5], [opening]])


def action_of(x: float, y: float, z: float, yaw: float, gripper: float) -> np.ndarray:
    return np.array([x, y, z, np.cos(yaw), np.sin(yaw), gripper], np.float32)


def _target(action: np.ndarray) -> np.ndarray:
    clipped = np.clip(np.asarray(action, float), ACTION_LOW, ACTION_HIGH)
    return np.array([*clipped[:3], np.arctan2(action[4], action[3]), clipped[5]])
