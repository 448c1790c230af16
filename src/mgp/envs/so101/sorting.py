"""Sorting by a cue: a lamp shows for a moment into which of two baskets the towel belongs.

The lamp is lit red or blue for the first steps and dark from then on, so that no later observation tells the basket.
In `towel-nudged` somebody shifts the towel after that (towel_nudge.py): the basket is only in the past, the place only
in the present.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgp.envs.checks import check_options
from mgp.envs.so101 import workbench
from mgp.envs.so101.arm import FINGERS
from mgp.envs.so101.button import COLOURS
from mgp.envs.so101.cloud import INTO, Thing, circle, plate
from mgp.envs.so101.controller import FixedBase, action_of
from mgp.envs.so101.env import So101Env
from mgp.envs.so101.sorting_expert import START, demonstrate, go_on
from mgp.envs.so101.towel_nudge import TowelNudge
from mgp.errors import UnknownNameError

TASKS = ("towel", "towel-nudged")
CUES = ("red", "blue")
ACTIONS = So101Env.actions
HORIZONS = {"towel": 150, "towel-nudged": 180}  # whoever has gone to the old place needs time to come to the new one
LIT = 5  # control steps
SPREAD = (0.06, 0.008, 0.14)  # of the towel at the start: sideways and forwards in metres, turned in radians
SETTLED = 5  # control steps at rest in a basket that end the episode
REST = 0.05  # m/s


def tasks() -> list[str]:
    return list(TASKS)


def make(task: str, observation: str = "cloud", **options: Any) -> SortingEnv:
    check_options(SortingEnv, "sorting", options)
    return SortingEnv(task, observation, **options)


class SortingEnv(So101Env):
    """`state`: 15 of the arm."""

    def __init__(
        self, task: str, observation: str = "cloud", *, cloud: str = "camera", points: int = 1024,
        depth_noise: float = 0.0, camera_shift: float = 0.0, size: int = 128, horizon: int | None = None,
    ):  # fmt: skip
        if task not in TASKS:
            raise UnknownNameError("sorting task", task, TASKS)
        model = workbench.build()
        self.task, self.cue = task, CUES[0]
        self.recalled = self.cue  # what the expert takes the cue for
        self._nudge: TowelNudge | None = None
        self._rested = 0
        self._lamp = model.geom("lamp").id
        self._towel_geom = model.geom("towel").id
        self._fingers = [model.body(name).id for name in FINGERS]
        joint = model.joint("towel")
        self._towel_qpos = slice(int(joint.qposadr[0]), int(joint.qposadr[0]) + 7)
        self._towel_qvel = slice(int(joint.dofadr[0]), int(joint.dofadr[0]) + 3)
        cameras = workbench.CLOUD_CAMERA, workbench.PICTURE_CAMERA
        super().__init__(
            f"sorting/{task}", observation, model, cameras, _things(), [self._lamp], workbench.WORKSPACE,
            cloud=cloud, points=points, depth_noise=depth_noise, camera_shift=camera_shift, size=size,
            horizon=HORIZONS[task] if horizon is None else horizon,
        )  # fmt: skip
        self.static_twin = "sorting/towel" if task == "towel-nudged" else None

    def build_base(self) -> FixedBase:
        return FixedBase(*workbench.BASE, np.pi / 2)

    def start(self, random: np.random.Generator) -> None:
        self.cue = self.recalled = CUES[random.integers(2)]
        x, y, turn = random.uniform(-1, 1, 3) * SPREAD
        place = [workbench.TOWEL_PLACE[0] + x, workbench.TOWEL_PLACE[1] + y, workbench.TOWEL[2]]
        self._put_towel(place, turn)
        self._nudge = TowelNudge.of(self._seed, place[0], turn) if self.task == "towel-nudged" else None
        self._rested = 0
        x, y, z = START + random.uniform(-1, 1, 3) * [0.02, 0.01, 0.01]
        self.controller.put(action_of(x, y, z, np.pi / 2, 0))
        self._show(self.cue)

    def forget(self, random: np.random.Generator) -> None:
        """From now on the expert takes a colour drawn by chance for the lamp's."""
        self.recalled = CUES[random.integers(len(CUES))]

    def _show(self, colour: str) -> None:
        self.model.geom_rgba[self._lamp] = COLOURS[colour]

    def _put_towel(self, place: Sequence[float], turn: float) -> None:
        self.data.qpos[self._towel_qpos] = [*place, np.cos(turn / 2), 0, 0, np.sin(turn / 2)]

    def before_step(self, step: int) -> None:
        place, _ = self.towel()
        nudge = self._nudge
        if nudge and self.shifted_at is None and nudge.is_due(step, self.controller.state()[:3], place):
            self._put_towel((nudge.x, *place[1:]), nudge.turn)
            self.shifted_at = self._steps

    def towel(self) -> tuple[np.ndarray, float]:
        """Where the towel is (3,), and the angle it is turned by about the vertical."""
        x, y, z, *quaternion = self.data.qpos[self._towel_qpos]
        w, i, j, k = quaternion
        return np.array([x, y, z]), float(np.arctan2(2 * (w * k + i * j), 1 - 2 * (j * j + k * k)))

    def resting_in(self) -> str | None:
        """The basket in which the towel lies, let go of."""
        place, _ = self.towel()
        if (
            self._held()
            or place[2] > workbench.BASKET_HEIGHT
            or np.linalg.norm(self.data.qvel[self._towel_qvel]) > REST
        ):
            return None
        for colour, centre in workbench.BASKETS.items():
            if np.abs(place[:2] - centre).max() < workbench.BASKET_HALF:
                return colour
        return None

    def _held(self) -> bool:
        """Whether a finger touches the towel."""
        pairs = self.data.contact.geom  # (C, 2)
        touching = pairs[(pairs == self._towel_geom).any(1)]
        return bool(np.isin(self.model.geom_bodyid[touching], self._fingers).any())

    def judge(self) -> tuple[float, bool, bool, dict[str, Any]]:
        self._show(self.cue if self._steps < LIT else "off")
        basket = self.resting_in()
        self._rested = self._rested + 1 if basket else 0
        success = basket == self.cue
        info: dict[str, Any] = {"basket": basket or "none"}
        if self.task == "towel-nudged":
            info["shifted"] = self.shifted_at is not None
        return float(success), self._rested >= SETTLED, success, info

    def scene_state(self) -> np.ndarray:
        """(7,) towel position, cos and sin of its rotation, and whether the lamp is red or blue."""
        place, turn = self.towel()
        lit = [np.allclose(self.model.geom_rgba[self._lamp], COLOURS[cue]) for cue in CUES]
        return np.array([*place, np.cos(turn), np.sin(turn), *lit])

    def plan(self, random: np.random.Generator) -> np.ndarray:
        basket = workbench.BASKETS[self.recalled]
        if self.shifted_at is None:
            return demonstrate(*self.towel(), basket, self.controller.state()[:3], random)
        return go_on(*self.towel(), basket, self.controller.target, random)


def _things() -> list[Thing]:
    radius, (length, width, height) = workbench.LAMP_RADIUS, workbench.TOWEL
    lamp = np.concatenate([circle(0.9 * radius, 0.0, 24), circle(0.6 * radius, 0.6 * radius, 16)])
    top = plate(length - 0.006, width - 0.003, height - INTO, 14, 6)
    rim = np.linspace(-1, 1, 20) * workbench.BASKET_HALF
    sides = [np.stack([rim, np.full(20, side * workbench.BASKET_HALF)], 1) for side in (-1, 1)]
    edges = np.concatenate([*sides, *(side[:, ::-1] for side in sides)])
    walls = np.concatenate(
        [np.column_stack([edges, np.full(len(edges), level)]) for level in (0.02, workbench.BASKET_HEIGHT - INTO)]
    )
    baskets = [Thing(workbench.basket_geoms(c), walls, f"basket_{c}") for c in workbench.BASKETS]
    folds = tuple(f"fold{i}" for i in range(3))
    sides_of_towel = np.concatenate([plate(length, width, level, 9, 3) for level in (-height / 2, 0.0)])
    return [
        Thing(("lamp",), lamp + workbench.LAMP),
        Thing(folds, np.concatenate([top, sides_of_towel]), "towel"),
        *baskets,
    ]
