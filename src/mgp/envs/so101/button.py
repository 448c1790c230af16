"""Push-buttons with LED rings: parts of the model, and when they count as pressed."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from mgp.envs.so101.cloud import INTO, circle

HOUSING_RADIUS, HOUSING_HEIGHT = 0.040, 0.020
CAP_RADIUS, CAP_HEIGHT = 0.025, 0.010
RING_RADIUS, RING_HEIGHT = 0.038, 0.004  # a disc on the housing; the cap hides its middle
TRAVEL = 0.010  # metres the cap goes down
PRESSED, RELEASED = 0.006, 0.0018  # pressed at more than this, and armed again at less than that
DEBOUNCE = 5  # control steps up until it can be pressed again; a trembling finger does not press twice
COLOURS: dict[str, tuple[float, float, float, float]] = {
    "red": (1.0, 0.05, 0.05, 1.0),
    "green": (0.05, 0.9, 0.1, 1.0),
    "blue": (0.1, 0.2, 1.0, 1.0),
    "yellow": (1.0, 0.9, 0.0, 1.0),
    "off": (0.06, 0.06, 0.06, 1.0),
}


def add_button(spec: mujoco.MjSpec, name: str, x: float, y: float) -> None:
    cylinder = mujoco.mjtGeom.mjGEOM_CYLINDER
    housing = spec.worldbody.add_body(name=name, pos=[x, y, 0])
    touched = {"contype": 0, "conaffinity": 1}
    housing.add_geom(
        name=f"{name}_housing", type=cylinder, size=[HOUSING_RADIUS, HOUSING_HEIGHT / 2, 0],
        pos=[0, 0, HOUSING_HEIGHT / 2], rgba=[0.25, 0.25, 0.27, 1], **touched,
    )  # fmt: skip
    housing.add_geom(
        name=f"{name}_ring", type=cylinder, size=[RING_RADIUS, RING_HEIGHT / 2, 0],
        pos=[0, 0, HOUSING_HEIGHT + RING_HEIGHT / 2], rgba=COLOURS["off"], contype=0, conaffinity=0,
    )  # fmt: skip
    cap = housing.add_body(name=f"{name}_cap", pos=[0, 0, HOUSING_HEIGHT + CAP_HEIGHT / 2])
    cap.add_joint(
        name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, 0, 1], range=[-TRAVEL, 0], limited=True,
        stiffness=150, damping=2, springref=0.004,
    )  # fmt: skip
    cap.add_geom(
        name=f"{name}_cap", type=cylinder, size=[CAP_RADIUS, CAP_HEIGHT / 2, 0], mass=0.02,
        rgba=[0.55, 0.55, 0.58, 1], **touched,
    )  # fmt: skip


def spots() -> tuple[np.ndarray, np.ndarray]:
    """Where to aim rays: at the ring's visible part, (90, 3), and at cap and housing, (42, 3)."""
    width, height = RING_RADIUS - CAP_RADIUS, HOUSING_HEIGHT + RING_HEIGHT - INTO
    ring = [circle(CAP_RADIUS + share * width, height, 30) for share in (0.25, 0.55, 0.85)]
    top = HOUSING_HEIGHT + CAP_HEIGHT - INTO
    body = [circle(0.008, top, 6), circle(0.018, top, 12), circle(HOUSING_RADIUS - INTO, 0.010, 24)]
    return np.concatenate(ring), np.concatenate(body)


class ButtonPanel:
    """The buttons of a model by index: travel, rising edges, and the rings' colours."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, names: Sequence[str]):
        self._model, self._data = model, data
        self._qpos = np.array([int(model.joint(name).qposadr[0]) for name in names])
        self.rings = np.array([model.geom(f"{name}_ring").id for name in names])
        self.down = np.zeros(len(names), bool)  # pressed, and not yet released
        self._up = np.full(len(names), DEBOUNCE)  # control steps since it was released

    def reset(self) -> None:
        self.down[:] = False
        self._up[:] = DEBOUNCE

    def travel(self) -> np.ndarray:
        """(B,) metres each cap is down."""
        return -self._data.qpos[self._qpos]

    def update(self) -> list[int]:
        """The buttons pressed since the last call (rising edges)."""
        travel = self.travel()
        edge = (travel > PRESSED) & ~self.down
        pressed = np.flatnonzero(edge & (self._up >= DEBOUNCE))
        self.down = np.where(self.down, travel >= RELEASED, edge)
        self._up = np.where(self.down, 0, self._up + 1)
        return pressed.tolist()

    def show(self, colours: Sequence[str]) -> None:
        """Light the rings: names in COLOURS."""
        self._model.geom_rgba[self.rings] = [COLOURS[colour] for colour in colours]
