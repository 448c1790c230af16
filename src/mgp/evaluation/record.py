"""The record of one evaluation, and its JSON. Pictures go to an .npz beside it, so that the JSON stays readable.

Schema (`format` 1): every field of `Evaluation` but the pictures; `success` and `interval` are written too, for readers
without this package. An episode's trace, if recorded, is four lists; a confidence that is not finite is null.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mgp.errors import DataError
from mgp.evaluation.episode import EpisodeResult
from mgp.evaluation.latency import Latency
from mgp.evaluation.statistics import wilson
from mgp.files import write_atomic
from mgp.policies.base import PlanTrace

FORMAT = 1
ORACLE = "oracle"
UNCHECKED = "demonstration seeds unknown: overlap not checked"
INTEGERS = ("executed", "tokens", "masked")  # arrays of a trace that hold whole numbers


@dataclass(frozen=True)
class Evaluation:
    method: str  # as the paper writes it: MGP-Short, MGP-Long, MGP-Full, MGP-w/o-SM, ...
    task: str  # the environment's name, e.g. "metaworld/assembly"
    observation: str
    episodes: tuple[EpisodeResult, ...]
    preset: str = ""
    training_seed: int | None = None
    training_minutes: float | None = None
    demonstrations: int | None = None
    variant: dict[str, Any] = field(default_factory=dict)  # options that differ from the preset: temperature, ...
    missing: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)  # of the environment
    seeds_checked: bool = False  # whether the demonstrations' seeds were known, so that none of them is among these
    execution_horizon: int | None = None
    latency: tuple[dict[str, Any], ...] = ()  # `Latency.as_dict`, one for each number of threads
    seconds: float | None = None  # the episodes took, in all
    commit: str = "unknown"
    machine: str = ""
    date: str = ""  # ISO 8601, UTC

    @property
    def successes(self) -> int:
        return sum(episode.success for episode in self.episodes)

    @property
    def success(self) -> float:
        return self.successes / len(self.episodes) if self.episodes else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.successes, len(self.episodes))

    @property
    def outcomes(self) -> dict[int, bool]:
        """By episode seed, as `statistics.sign_test` wants them."""
        return {episode.seed: episode.success for episode in self.episodes}

    @property
    def cloud(self) -> str:
        """What its point clouds were made of, "" without one."""
        return cloud_kind(self.observation, self.options)

    @property
    def overlap(self) -> str:
        """A caution about the episodes, "" if there is none."""
        return "" if self.seeds_checked else UNCHECKED

    def _check(self) -> None:
        """The types a reader counts on, of a record that comes from a file."""
        texts = (self.method, self.task, self.observation, self.preset, self.commit, self.machine, self.date)
        numbers = (self.missing, self.training_minutes, self.seconds, self.training_seed, self.demonstrations)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a name is no text")
        if not isinstance(self.variant, dict) or not isinstance(self.options, dict):
            raise ValueError("options have no names")
        if not all(value is None or isinstance(value, int | float) for value in numbers):
            raise ValueError("a figure is no number")

    def save(self, path: Path) -> None:
        """Write PATH.json and, if there are pictures, PATH.npz."""
        pictures: dict[str, Any] = {}
        for episode in self.episodes:
            if episode.pictures is not None:
                pictures[f"pictures_{episode.seed}"] = episode.pictures
        side = _named(path, ".npz")
        if pictures:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **pictures)
            write_atomic(side, buffer.getvalue())
        else:
            side.unlink(missing_ok=True)  # of an earlier evaluation of this name
        content = {
            "format": FORMAT,
            **{f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "episodes"},
            "success": self.success,
            "interval": self.interval,
            "episodes": [_episode_out(episode) for episode in self.episodes],
        }
        write_atomic(_named(path, ".json"), json.dumps(content, indent=1, allow_nan=False).encode())

    @classmethod
    def load(cls, path: Path) -> Evaluation:
        try:
            content = json.loads(_named(path, ".json").read_text())
            if content["format"] != FORMAT:
                raise DataError(f"{path} has format {content['format']}, this version reads {FORMAT}: evaluate again")
            known = {f.name for f in dataclasses.fields(cls)}
            content["episodes"] = tuple(_episode_in(one, path) for one in content["episodes"])
            content["latency"] = tuple(Latency.from_dict(one).as_dict() for one in content.get("latency", ()))
            # written before there was this field: whoever could count the demonstrations knew their seeds
            content.setdefault("seeds_checked", bool(content.get("demonstrations")))
            evaluation = cls(**{key: value for key, value in content.items() if key in known})
            evaluation._check()
            return evaluation
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is no evaluation of mgp ({error!r}): evaluate again") from error


def cloud_kind(observation: str, options: Mapping[str, Any]) -> str:
    """camera, oracle or paper. Before there was a choice, all were made with the simulator's segmentation: oracle."""
    return str(options.get("cloud", ORACLE)) if "cloud" in observation else ""


def _named(path: Path, suffix: str) -> Path:
    """`with_suffix` would take the end of "temperature=0.5" for one."""
    return path.with_suffix(suffix) if path.suffix == ".json" else path.with_name(path.name + suffix)


def _episode_out(episode: EpisodeResult) -> dict[str, Any]:
    fields = {f.name: getattr(episode, f.name) for f in dataclasses.fields(episode)}
    del fields["pictures"]
    if episode.trace is None:
        del fields["trace"]
    else:
        fields["trace"] = trace_out(episode.trace)
    return fields


def trace_out(trace: PlanTrace) -> dict[str, Any]:
    """As JSON has it; what a probed trace adds is left out."""
    values = {f.name: getattr(trace, f.name) for f in dataclasses.fields(PlanTrace)}
    return {name: np.asarray(v).tolist() if name in INTEGERS else _rounded(v) for name, v in values.items()}


def trace_in(content: dict[str, Any]) -> PlanTrace:
    trace = PlanTrace(**{name: np.array(v, int if name in INTEGERS else float) for name, v in content.items()})
    if not trace.confidence.shape == trace.masked.shape == trace.tokens.shape or trace.tokens.ndim != 2:
        found = ", ".join(f"{name} {getattr(trace, name).shape}" for name in ("tokens", "confidence", "masked"))
        raise ValueError(f"the arrays of a trace must have one shape (replans, tokens); found {found}")
    return trace


def _rounded(values: np.ndarray) -> list[list[float | None]]:
    """Four digits are more than a picture shows, and make the file a third of the size."""
    rows = np.asarray(values, np.float64).tolist()
    return [[round(value, 4) if math.isfinite(value) else None for value in row] for row in rows]


def _episode_in(fields: dict[str, Any], path: Path) -> EpisodeResult:
    content = fields.pop("trace", None)
    trace = None if content is None else trace_in(content)
    fields["picture_steps"] = tuple(fields.get("picture_steps", ()))
    return EpisodeResult(**fields, trace=trace, pictures=_pictures(_named(path, ".npz"), fields["seed"]))


def _pictures(side: Path, seed: int) -> np.ndarray | None:
    """Pictures are for looking at: without them, or with a broken file, the figures still stand."""
    try:
        with np.load(side, allow_pickle=False) as archive:
            pictures = archive[f"pictures_{int(seed)}"]
    except Exception:  # a zip can be broken in many ways, and each raises something else
        return None
    return pictures if pictures.dtype == np.uint8 and pictures.ndim == 4 and pictures.shape[-1] == 3 else None
