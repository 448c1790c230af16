"""Buttons round a table, pressed in an order that no single observation tells: the non-Markovian tasks.

Press red, green, blue, yellow, whichever corner each is at. In `on-off` a ring is dark only while its button is held
down, so that afterwards the scene looks as before. In `color-change` each press steps the ring through yellow, red,
green, blue, off; the order is that of the colours at the start, and later frames show colours twice. `shifted` is the
same on a plate that is shifted between the second and the third press (plate.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgp.envs.checks import check_options
from mgp.envs.so101 import buttons_scene as scene
from mgp.envs.so101 import rail
from mgp.envs.so101.button import COLOURS, ButtonPanel, spots
from mgp.envs.so101.buttons_expert import START_HEIGHT, START_REACH, demonstrate, go_on
from mgp.envs.so101.cloud import Thing
from mgp.envs.so101.controller import Carriage, action_of
from mgp.envs.so101.env import So101Env
from mgp.envs.so101.plate import Plate, PlateShift
from mgp.errors import UnknownNameError

TASKS = ("color-change", "on-off", "shifted")
ORDER = ("red", "green", "blue", "yellow")  # to press
CYCLE = ("yellow", "red", "green", "blue", "off")  # of color-change and shifted
ACTIONS = So101Env.actions
HORIZONS = {"color-change": 500, "on-off": 500, "shifted": 550}
# Of the carriage round the middle of the side at y < 0. From there, and from any button, one way round is shorter by
# 0.4 m or more: a start anywhere on the rail would now and then leave the choice to a millimetre.
START_SPREAD = 0.05


def tasks() -> list[str]:
    return list(TASKS)


def make(task: str, observation: str = "cloud", **options: Any) -> ButtonsEnv:
    check_options(ButtonsEnv, "buttons", options)
    return ButtonsEnv(task, observation, **options)


class ButtonsEnv(So101Env):
    """`state`: 15 of the arm, cos and sin of the place on the rail, carriage x, y, cos and sin of its rotation."""

    def __init__(
        self, task: str, observation: str = "cloud", *, cloud: str = "camera", points: int = 1024,
        depth_noise: float = 0.0, camera_shift: float = 0.0, size: int = 128, horizon: int | None = None,
    ):  # fmt: skip
        if task not in TASKS:
            raise UnknownNameError("buttons task", task, TASKS)
        self.task = task
        model = scene.build(plate=task == "shifted")
        self.plate = Plate(model) if task == "shifted" else None
        self._shift: PlateShift | None = None
        self._initial: list[str] = ["off"] * 4  # colour of each button at the start
        self._colours: list[str] = ["off"] * 4  # and now
        self.recalled: list[int] = []  # what the expert takes the order for
        self._done = 0  # buttons pressed in order
        self._wrong = False
        rings = [model.geom(f"{name}_ring").id for name in scene.BUTTONS]
        cameras = scene.CLOUD_CAMERA, scene.PICTURE_CAMERA
        super().__init__(
            f"buttons/{task}", observation, model, cameras, _things(), rings, scene.WORKSPACE,
            cloud=cloud, points=points, depth_noise=depth_noise, camera_shift=camera_shift, size=size,
            horizon=HORIZONS[task] if horizon is None else horizon,
        )  # fmt: skip
        self.panel = ButtonPanel(model, self.data, scene.BUTTONS)
        self.static_twin = "buttons/color-change" if task == "shifted" else None

    def build_base(self) -> Carriage:
        self.carriage = Carriage(self.model, self.data)
        return self.carriage

    def start(self, random: np.random.Generator) -> None:
        self._initial = [ORDER[i] for i in random.permutation(4)]
        self._colours = list(self._initial)
        self.recalled = self.order
        if self.plate:
            self.plate.put(np.zeros(2))
            self._shift = PlateShift.of(self._seed)
        self._done, self._wrong = 0, False
        s = random.uniform(-START_SPREAD, START_SPREAD)
        self.carriage.put(s)
        x, y, yaw = rail.pose(s)
        reach, height = START_REACH + random.uniform(-0.02, 0.02), START_HEIGHT + random.uniform(-0.01, 0.01)
        self.controller.put(action_of(x + reach * np.cos(yaw), y + reach * np.sin(yaw), height, yaw, 0))
        self.panel.reset()
        self._show()

    def forget(self, random: np.random.Generator) -> None:
        """From now on the expert presses in an order drawn by chance."""
        self.recalled = random.permutation(4).tolist()

    def before_step(self, step: int) -> None:
        if self.plate and self._shift and self.shifted_at is None:
            height = float(self.controller.state()[2])
            if self._shift.is_due(self._done, bool(self.panel.down.any()), height):
                self.plate.put(self._shift.offset)
                self.shifted_at = self._steps

    @property
    def order(self) -> list[int]:
        """The buttons in the order to press them."""
        return [self._initial.index(colour) for colour in ORDER]

    def judge(self) -> tuple[float, bool, bool, dict[str, Any]]:
        """A wrong press, be it a right one twice, ends the episode; success ends it when the last is released."""
        correct = 0
        for button in self.panel.update():
            if self.task != "on-off":
                self._colours[button] = CYCLE[(CYCLE.index(self._colours[button]) + 1) % len(CYCLE)]
            if self._done < 4 and button == self.order[self._done]:
                self._done += 1
                correct += 1
            elif self._done < 4:
                self._wrong = True
        self._show()
        success = self._done == 4 and not self._wrong
        terminated = self._wrong or (success and not self.panel.down.any())
        info: dict[str, Any] = {"pressed": self._done, "wrong": self._wrong}
        if self.plate:
            info["shifted"] = self.shifted_at is not None
        return float(correct), terminated, success, info

    def _show(self) -> None:
        held = self.panel.down if self.task == "on-off" else np.zeros(4, bool)
        self.panel.show(["off" if down else colour for colour, down in zip(self._colours, held, strict=True)])

    def robot_state(self) -> np.ndarray:
        position, yaw = self.carriage.pose()
        place = 2 * np.pi * rail.nearest(*position) / rail.LENGTH
        track = [np.cos(place), np.sin(place), *position, np.cos(yaw), np.sin(yaw)]
        return np.concatenate([self.controller.state(), track])

    def scene_state(self) -> np.ndarray:
        """(20,) the rings' present colours, one-hot of `COLOURS` for each button; of a plate (2,) how far it is off."""
        shown = self.model.geom_rgba[[self.model.geom(f"{name}_ring").id for name in scene.BUTTONS]]
        palette = np.array(list(COLOURS.values()), np.float32)
        colours = np.isclose(shown[:, None], palette).all(-1).astype(float).ravel()
        return np.concatenate([colours, self.plate.offset]) if self.plate else colours

    def plan(self, random: np.random.Generator) -> np.ndarray:
        places = self.plate.places() if self.plate else scene.PLACES
        left = [places[i] for i in self.recalled[self._done :]]
        if self.shifted_at is None:
            return demonstrate(left, self.robot_state()[:3], self.carriage.pose(), random)
        return go_on(left, self.controller.target, self.carriage.pose(), random)


def _things() -> list[Thing]:
    rings, bodies = [], []
    ring, body = spots()
    for name in scene.BUTTONS:
        rings.append(Thing((f"{name}_ring",), ring, name))
        bodies.append(Thing((f"{name}_cap", f"{name}_housing"), body, name))
    return rings + bodies
