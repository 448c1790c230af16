"""The scene of the button tasks: table, rail, carriage with the arm, and a button near each corner."""

from __future__ import annotations

import mujoco
import numpy as np

from mgp.envs.camera import Camera
from mgp.envs.so101 import rail
from mgp.envs.so101.arm import attach_arm
from mgp.envs.so101.button import add_button
from mgp.envs.so101.controller import TIMESTEP
from mgp.envs.workspace import Workspace

HALF_SIDE = 0.40  # of the table; its top is z = 0
PLACES = ((0.20, -0.20), (0.20, 0.20), (-0.20, 0.20), (-0.20, -0.20))  # of the buttons, counter-clockwise
BUTTONS = tuple(f"button{i}" for i in range(len(PLACES)))
BASE_HEIGHT = 0.035  # of the arm's base on the carriage
PLATE, PLATE_HALF, PLATE_HEIGHT = "plate", 0.27, 0.001  # thin: to a depth camera it is the table
CAMERA = "overview"
# From above the middle: the arm comes from outside, so that at each button it leaves the inner half of the ring free.
CLOUD_CAMERA = Camera.looking((0.0, -0.001, 0.75), (0.0, 0.0, 0.0), 84.0)
PICTURE_CAMERA = Camera.looking((0.62, -0.95, 0.85), (0.03, -0.07, 0.02), 45.0)
WORKSPACE = Workspace((-0.385, -0.385), (0.385, 0.385, 0.45), 0.0)  # the rail is outside
WOOD, STEEL, DARK = (0.80, 0.72, 0.62, 1.0), (0.55, 0.57, 0.60, 1.0), (0.30, 0.31, 0.34, 1.0)
PALE = (0.90, 0.89, 0.86, 1.0)


def empty_scene(name: str) -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.modelname = name
    spec.compiler.degree = False  # as the arm has it; limits of an attached model are read in units of this one
    spec.option.timestep = TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.worldbody.add_light(pos=[0, 0, 2], dir=[0, 0, -1], directional=True)
    return spec


def add_camera(spec: mujoco.MjSpec, camera: Camera) -> None:
    """The camera of rgb and depth."""
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, camera.matrix.ravel())
    spec.worldbody.add_camera(name=CAMERA, pos=camera.position, quat=quat, fovy=camera.fovy)


def add_box(body: mujoco.MjsBody, name: str, size: tuple, pos: tuple, rgba: tuple, touched: bool = False) -> None:
    body.add_geom(
        name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=size, pos=pos, rgba=rgba, contype=0, conaffinity=int(touched)
    )


def build(plate: bool = False) -> mujoco.MjModel:
    """`plate`: the buttons stand on one, for the eye only."""
    spec = empty_scene("buttons")
    add_camera(spec, CLOUD_CAMERA)
    add_box(spec.worldbody, "table", (HALF_SIDE, HALF_SIDE, 0.01), (0, 0, -0.01), WOOD, touched=True)
    if plate:
        half = (PLATE_HALF, PLATE_HALF, PLATE_HEIGHT / 2)
        add_box(spec.worldbody, PLATE, half, (0, 0, PLATE_HEIGHT / 2), PALE)
    _add_rail(spec)
    _add_carriage(spec)
    for name, (x, y) in zip(BUTTONS, PLACES, strict=True):
        add_button(spec, name, x, y)
    return spec.compile()


def _add_rail(spec: mujoco.MjSpec) -> None:
    """Drawn only: the carriage follows the curve by its actuators."""
    cuts = [side * rail.SIDE + rail.STRAIGHT + part * rail.ARC for side in range(4) for part in np.linspace(0, 1, 6)]
    for i, (start, end) in enumerate(zip(cuts, [*cuts[1:], cuts[0] + rail.LENGTH], strict=True)):
        ends = [*rail.pose(start)[:2], 0.008, *rail.pose(end)[:2], 0.008]
        spec.worldbody.add_geom(
            name=f"rail{i}", type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=[0.008, 0, 0], fromto=ends, rgba=STEEL,
            contype=0, conaffinity=0,
        )  # fmt: skip


def _add_carriage(spec: mujoco.MjSpec) -> None:
    carriage = spec.worldbody.add_body(name="carriage")
    slide, hinge = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE
    for name, kind, axis, kp, kv in (
        ("carriage_x", slide, [1, 0, 0], 40000, 800),
        ("carriage_y", slide, [0, 1, 0], 40000, 800),
        ("carriage_yaw", hinge, [0, 0, 1], 1000, 30),
    ):
        carriage.add_joint(name=name, type=kind, axis=axis)
        actuator = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.gaintype, actuator.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
        actuator.gainprm[0], actuator.biasprm[1:3] = kp, (-kp, -kv)
    add_box(carriage, "carriage", (0.055, 0.045, 0.01), (-0.01, 0, 0.024), DARK)
    carriage.geoms[0].mass = 1.5
    attach_arm(spec, carriage, BASE_HEIGHT)
