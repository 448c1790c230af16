"""A Rerun recording of what a controller saw, planned and did: `rerun episode.rrd` shows it. Extra `[viz]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mgp.data import motion
from mgp.extras import needed
from mgp.runtime.guards import Seen
from mgp.runtime.log import ControlLog, StepNote

if TYPE_CHECKING:
    from mgp.runtime.controller import Controller

SEEN, PLANNED = (90, 160, 220), (230, 120, 40)  # colours


class Recording:
    """An observer of a controller; `close` it with the log when the episode is over.

        recording = Recording("episode.rrd")
        with Controller(policy, robot, observers=(recording,)) as controller:
            recording.close(controller.run(seconds=10))

    Clouds, pictures, the hand (the first three numbers of "state") and the plan that goes on from it, confidence, age
    of the observation, commands and events. `unit`: metres of a displacement of 1; Meta-World's is 0.01.
    """

    def __init__(self, path: Path | str, unit: float = 1.0, name: str = "mgp"):
        self.rerun: Any = needed("rerun", "viz", "a recording")
        self.unit, self.events = unit, 0
        self.stream = self.rerun.RecordingStream(name)
        self.stream.save(path)

    def __call__(self, controller: Controller, seen: Seen, note: StepNote) -> None:
        log, rerun = self.stream.log, self.rerun
        step = controller.log.total - 1
        self.stream.set_time("step", sequence=step)
        self.stream.set_time("time", duration=note.time)
        for key, value in (seen.frame or {}).items():
            self._observation(key, value)
        hand = (seen.frame or {}).get("state")
        if hand is not None and len(hand) >= 3 and controller.driver.chunk is not None:
            self._plan(controller, np.asarray(hand[:3], np.float64))
        scalars = {"confidence": note.confidence, "age": note.age, "held": float(note.held)}
        for name, number in scalars.items():
            if number is not None and np.isfinite(number):
                log(f"control/{name}", rerun.Scalars([number]))
        for name, values in (("wanted", note.wanted), ("given", note.given)):
            log(f"command/{name}", rerun.Scalars(values))
        for event in list(controller.log.events)[self.events :]:
            log("control/events", rerun.TextLog(f"{event.kind}: {event.text}"))
        self.events = len(controller.log.events)

    def close(self, log: ControlLog | None = None) -> None:
        """With the maps of confidence and masks, a column for each look, of a policy that keeps a plan."""
        if log is not None and log.trace is not None:
            shown = np.log10(np.clip(np.nan_to_num(log.trace.confidence, posinf=1.0), 1e-3, 1)) / 3 + 1  # 0 to 1
            for name, values in (("confidence", shown), ("masked", log.trace.masked.clip(0, 2) / 2)):
                picture = (255 * values.T[::-1]).astype(np.uint8)  # tokens upwards, looks to the right
                self.stream.log(f"plan/{name}", self.rerun.Image(picture), static=True)
        self.stream.flush()
        self.stream.disconnect()

    def _observation(self, key: str, value: Any) -> None:
        kind, log, rerun = key.partition("_")[0], self.stream.log, self.rerun
        if kind == "cloud":
            colours = (value[:, 3:6].clip(0, 1) * 255).astype(np.uint8) if value.shape[-1] >= 6 else SEEN
            log(f"world/{key}", rerun.Points3D(value[:, :3], colors=colours, radii=0.003))
        elif kind == "rgb":
            log(f"camera/{key}", rerun.Image(value))
        elif kind == "depth":
            log(f"camera/{key}", rerun.DepthImage(value))
        elif kind == "state":
            log(f"state/{key}", rerun.Scalars(np.asarray(value, np.float64)))

    def _plan(self, controller: Controller, hand: np.ndarray) -> None:
        """The arm's hand, and where the first three numbers of the actions in hand lead it."""
        driver, rerun = controller.driver, self.rerun
        actions = driver.chunk.actions[0, driver.taken :, :3].astype(np.float64) if driver.chunk else np.empty((0, 3))
        self.stream.log("world/hand", rerun.Points3D([hand], colors=PLANNED, radii=0.01))
        if actions.shape[0] == 0 or actions.shape[1] < 3:
            return
        place = motion.is_place(controller.still[:3])
        way = np.where(place, actions, hand + self.unit * np.cumsum(actions, axis=0))
        self.stream.log("world/plan", rerun.LineStrips3D([np.vstack([hand, way])], colors=PLANNED))
