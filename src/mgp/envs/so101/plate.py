"""The plate that carries the buttons of `buttons/shifted`: it is shifted once, between the second and third press."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from mgp.envs.nudge import nudge_random
from mgp.envs.so101.buttons_scene import BUTTONS, PLACES, PLATE

PRESSES = 2  # after so many
WAIT = (0, 24)  # control steps, drawn, since the finger is clear of the second button; the expert presses after 48 on
SHIFT = (0.03, 0.05)  # metres
# Along a side of the table, within so many radians: a button that comes further from one side is still in reach from
# the other (the arm reaches 25 cm from the rail, a button is 23 away).
ASKEW = 0.2
CLEAR = 0.050  # metres above the table at which the fingertip is free of all buttons


@dataclass
class PlateShift:
    """Of one episode; counts down from when the finger has come up again."""

    offset: np.ndarray  # (2,) metres
    wait: int
    lifted: bool = False

    @classmethod
    def of(cls, seed: int) -> PlateShift:
        random = nudge_random(seed)
        angle = random.integers(4) * np.pi / 2 + random.uniform(-ASKEW, ASKEW)
        length = random.uniform(*SHIFT)
        return cls(length * np.array([np.cos(angle), np.sin(angle)]), int(random.integers(WAIT[0], WAIT[1] + 1)))

    def is_due(self, pressed: int, held: bool, height: float) -> bool:
        """Asked before each control step; with the fingertip's height. Who comes down again before has it at once."""
        if pressed < PRESSES or held or not (self.lifted or height > CLEAR):
            return False
        self.lifted = True
        self.wait -= 1
        return self.wait < 0 or height < CLEAR


class Plate:
    """The plate of a model, and what stands on it."""

    def __init__(self, model: mujoco.MjModel):
        self._model = model
        self._bodies = [model.body(name).id for name in BUTTONS]
        self._geom = model.geom(PLATE).id
        self._homes, self._home = model.body_pos[self._bodies].copy(), model.geom_pos[self._geom].copy()

    def put(self, offset: np.ndarray) -> None:
        """So far (2,) from where it is at the start of an episode."""
        shift = np.array([*offset, 0.0])
        self._model.body_pos[self._bodies] = self._homes + shift
        self._model.geom_pos[self._geom] = self._home + shift

    @property
    def offset(self) -> np.ndarray:
        """(2,) metres from where it is at the start of an episode."""
        return self._model.geom_pos[self._geom, :2] - self._home[:2]

    def places(self) -> list[tuple[float, float]]:
        """Of the buttons at present, as `PLACES`."""
        return [(x + float(self.offset[0]), y + float(self.offset[1])) for x, y in PLACES]
