"""What a policy must know of its data to be built: shapes, hold, horizon, the kind of actions, the instructions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from mgp.data import motion
from mgp.data.demonstrations import Demonstrations
from mgp.data.description import ACTIONS, state_places
from mgp.errors import DataError

Actions = Literal["displacement", "absolute"]  # of the hand, in the first three numbers; or places to go to

LEAD = 0.1  # metres: commands that are further from the hand in the median are no places it is sent to


@dataclass(frozen=True)
class DataSpec:
    shapes: dict[
        str, tuple[int, ...]
    ]  # of one frame, by key of the observation, e.g. {"state": (9,), "cloud": (512, 3)}
    action: int  # A, numbers of an action
    horizon: int  # control steps of an episode
    actions: Actions
    hold: tuple[float | None, ...]  # (A,) the action that keeps the robot where it is; None: the last command goes on
    instructions: tuple[str, ...] = ()  # the distinct ones, where episodes come with an instruction
    options: dict[str, Any] = field(default_factory=dict)  # of the environment the data were recorded in
    points: int | None = None  # triples of a state that are places; None: not said
    uint8: tuple[str, ...] | None = None  # keys recorded in bytes, as images from 0 to 255 are; None: not said
    velocity: tuple[float, ...] = ()  # (A,) the largest demonstrated, a control step; empty: written before it was kept
    jerk: tuple[float, ...] = ()  # (A,) the same, a control step cubed
    lead: float | None = None  # metres from the hand to where absolute actions send it, in the median; None: unknown

    @classmethod
    def of(cls, demonstrations: Demonstrations) -> DataSpec:
        """From the demonstrations and what their store says of itself."""
        arrays, meta = demonstrations.arrays, demonstrations.meta
        width = int(arrays["action"].shape[-1])
        actions = meta.get("actions")
        if actions not in ACTIONS:
            raise DataError(
                f"the demonstrations say actions = {actions!r} of themselves, known are {', '.join(ACTIONS)}: write"
                " meta['actions'] = 'displacement' if the first three numbers of an action displace the hand, else"
                " 'absolute', or give it to `mgp train` by --task.actions"
            )
        hold = meta.get("hold_action") or [None] * width
        if len(hold) != width:
            raise DataError(f"hold_action has {len(hold)} numbers, an action {width}: give one for each, None to go on")
        place = motion.is_place(np.array([np.nan if value is None else value for value in hold]))
        episodes = np.split(arrays["action"].numpy(), demonstrations.ends[:-1].tolist())
        velocity, jerk = motion.largest(episodes, place)
        spec = cls(
            shapes={key: tuple(array.shape[1:]) for key, array in arrays.items() if key != "action"},
            action=width,
            horizon=int(meta.get("horizon") or demonstrations.lengths.max()),
            actions=actions,
            hold=tuple(None if value is None else float(value) for value in hold),
            instructions=tuple(sorted(set(demonstrations.instructions))),
            options=dict(meta.get("options", {})),
            points=meta.get("points"),
            uint8=tuple(sorted(key for key, array in arrays.items() if array.dtype == torch.uint8)),
            velocity=tuple(velocity.tolist()),
            jerk=tuple(jerk.tolist()),
        )
        if not (spec.places and width >= 3 and actions == "absolute"):
            return spec
        away = (arrays["action"][:][:, :3] - arrays["state"][:][:, :3]).norm(dim=1)
        return dataclasses.replace(spec, lead=float(away.median()))

    @property
    def places(self) -> int:
        """Triples at the beginning of a state that are places, the hand's own first; 0: the hand's place is unknown."""
        return state_places({"points": self.points}, self.shapes["state"][0]) if "state" in self.shapes else 0

    @property
    def lead_to_places(self) -> bool:
        """Whether the first three numbers of an action are the place the hand is to go to."""
        return self.lead is not None and self.lead <= LEAD

    @property
    def hold_command(self) -> np.ndarray:
        """(A,) NaN where the last command goes on, as a gripper's."""
        return np.array([np.nan if value is None else value for value in self.hold], np.float32)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> DataSpec:
        shapes = {key: tuple(shape) for key, shape in content["shapes"].items()}
        lists = [
            name for name in ("hold", "instructions", "uint8", "velocity", "jerk") if content.get(name) is not None
        ]
        tuples = {name: tuple(content[name]) for name in lists}
        return cls(**{**content, "shapes": shapes, **tuples})
