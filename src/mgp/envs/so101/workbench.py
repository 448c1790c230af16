"""The scene of the sorting task: a fixed arm, a folded towel, a basket on each side, and a lamp.

The towel is one rigid body of three folds with soft contacts. A cloth of particles would cost a hundred times the
simulation, and what the task asks for is to remember a colour, not to unfold anything.
"""

from __future__ import annotations

import mujoco
import numpy as np

from mgp.envs.camera import Camera
from mgp.envs.so101.arm import attach_arm
from mgp.envs.so101.buttons_scene import DARK, WOOD, add_box, add_camera, empty_scene
from mgp.envs.workspace import Workspace

BASE = (0.0, -0.20)  # of the pan axis; the arm looks along +y
STAND = 0.05  # metres high
TOWEL = (0.045, 0.016, 0.014)  # half sides: length, width, height
TOWEL_PLACE = (0.0, 0.0)
BASKETS = {"red": (-0.18, -0.10), "blue": (0.18, -0.10)}  # centres
BASKET_HALF, BASKET_HEIGHT, WALL = 0.065, 0.045, 0.003
LAMP = (0.0, 0.17, 0.045)
LAMP_RADIUS = 0.025
CLOUD_CAMERA = Camera.looking((0.0, 0.45, 0.60), (0.0, -0.07, 0.0), 58.0)
WORKSPACE = Workspace((-0.33, -0.32), (0.33, 0.26, 0.45), 0.0)
PICTURE_CAMERA = Camera.looking((0.42, 0.50, 0.48), (0.0, -0.06, 0.04), 44.0)
BASKET_COLOURS = {"red": (0.75, 0.35, 0.33, 1.0), "blue": (0.35, 0.45, 0.75, 1.0)}  # paler than the lamp's


def build() -> mujoco.MjModel:
    spec = empty_scene("sorting")
    # a towel held for two seconds must not creep out of the jaws
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 10
    add_camera(spec, CLOUD_CAMERA)
    world = spec.worldbody
    add_box(world, "table", (0.34, 0.30, 0.01), (0, -0.03, -0.01), WOOD, touched=True)
    world.add_geom(
        name="post", type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[0.012, LAMP[2] / 2, 0], pos=[*LAMP[:2], LAMP[2] / 2],
        rgba=DARK, contype=0, conaffinity=0,
    )  # fmt: skip
    world.add_geom(
        name="lamp", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[LAMP_RADIUS, 0, 0], pos=LAMP, contype=0, conaffinity=0
    )
    for colour, place in BASKETS.items():
        _add_basket(spec, colour, place)
    _add_towel(spec)
    stand = world.add_body(name="stand", pos=[*BASE, 0], quat=[np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
    add_box(stand, "stand", (0.06, 0.05, STAND / 2), (-0.02, 0, STAND / 2), DARK)
    attach_arm(spec, stand, STAND)
    return spec.compile()


def basket_geoms(colour: str) -> tuple[str, ...]:
    return tuple(f"basket_{colour}{i}" for i in range(5))


def _add_basket(spec: mujoco.MjSpec, colour: str, place: tuple[float, float]) -> None:
    basket = spec.worldbody.add_body(name=f"basket_{colour}", pos=[*place, 0])
    half, up = BASKET_HALF, BASKET_HEIGHT / 2
    floor = [((half, half, WALL), (0.0, 0.0, WALL))]
    across = [((WALL, half, up), (side * half, 0.0, up)) for side in (-1, 1)]
    along = [((half, WALL, up), (0.0, side * half, up)) for side in (-1, 1)]
    for name, (size, pos) in zip(basket_geoms(colour), floor + across + along, strict=True):
        add_box(basket, name, size, pos, BASKET_COLOURS[colour], touched=True)


def _add_towel(spec: mujoco.MjSpec) -> None:
    towel = spec.worldbody.add_body(name="towel", pos=[*TOWEL_PLACE, TOWEL[2]])
    towel.add_freejoint(name="towel")
    towel.add_geom(
        name="towel", type=mujoco.mjtGeom.mjGEOM_BOX, size=TOWEL, mass=0.05, friction=[2, 0.1, 0.01], condim=6,
        solref=[0.02, 1], solimp=[0.8, 0.95, 0.003, 0.5, 2], contype=1, conaffinity=1, group=4,
    )  # fmt: skip
    layer = TOWEL[2] / 3  # shown: three folds, each a little shorter than the one below
    for i, shade in enumerate((0.80, 0.88, 0.95)):
        size = (TOWEL[0] - 0.002 * i, TOWEL[1] - 0.0007 * i, layer * 0.95)
        add_box(towel, f"fold{i}", size, (0, 0, (2 * i - 2) * layer), (shade, shade, shade * 0.93, 1))
        towel.geoms[-1].mass = 0
