"""Configuration: frozen dataclasses, one comment a field, checked when they are made.

Here is what every policy shares: the task, how observations are encoded and augmented, and how training runs. Each
policy adds a dataclass of its own (`policies/config.py`); the named recipes are beside the policies and in presets.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, Self, get_args, get_origin, get_type_hints

import tyro

from mgp.errors import ConfigError, UnknownNameError


def positive(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not value > 0:  # NaN too
            raise ConfigError(f"{type(owner).__name__}.{name} = {value}: must be above 0")


def not_negative(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not value >= 0:
            raise ConfigError(f"{type(owner).__name__}.{name} = {value}: must be 0 or above")


def fraction(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not 0.0 <= value <= 1.0:
            raise ConfigError(f"{type(owner).__name__}.{name} = {value}: must lie in [0, 1]")


def choices(owner: object) -> None:
    """Every field with a fixed set of values holds one of them."""
    for name, hint in get_type_hints(type(owner)).items():
        value = getattr(owner, name)
        if get_origin(hint) is Literal and value not in get_args(hint):
            raise UnknownNameError(f"value of {type(owner).__name__}.{name}", str(value), map(str, get_args(hint)))


@dataclass(frozen=True)
class TaskConfig:
    # an environment as `mgp envs` lists it, or what one's own recordings are called; given by --task, or by the store
    name: Annotated[str, tyro.conf.Suppress] = "metaworld/assembly"
    observation: Literal["state", "cloud", "rgb", "depth"] = "cloud"  # what a simulator is asked for; a store says it
    # of the environment, e.g. points, cloud; given by --option NAME=VALUE, and checked by the environment itself
    options: Annotated[dict[str, Any], tyro.conf.Suppress] = field(default_factory=dict)
    actions: Literal["displacement", "absolute"] | None = None  # of own recordings that do not say it themselves
    keys: tuple[str, ...] = ()  # of a store's observations those to look at, e.g. state rgb_wrist; none named: all
    demonstrations: int = 10  # episodes to learn from, without the held-out ones; 0 = all there are
    seed: int = 0  # first candidate seed of the demonstrations
    held_out: int = 0  # last episodes of the store that are kept apart, to measure the error of predictions on them

    def __post_init__(self) -> None:
        choices(self)
        not_negative(self, "demonstrations", "seed", "held_out")

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class EncoderConfig:
    history: int = 2  # newest frames the policy looks at; 4 in the paper
    first: bool = False  # beside them, the first frame of the episode, which shows what later ones hide
    # hand: clouds and state relative to state[:3], for actions that displace the hand; for actions that are places the
    # state stays in the world's frame, with its difference from the newest beside it, and clouds are relative to
    # state[:3], with their own places beside them (reach), or have these alone (motion); world: as the sensors have it
    frame: Literal["hand", "reach", "motion", "world"] = "hand"
    # a state's motion is that since the frame before, not until the newest: for policies that learn at every frame of a
    # window, where the way to the newest would tell what is to be guessed
    causal: bool = False
    hidden: tuple[int, ...] = (64, 128, 256)  # widths of the layers on each point of a cloud, as in DP3
    zoom: tuple[float, ...] = ()  # extra point inputs tanh(zoom * normalised xyz): resolution near the origin
    dim: int = 64  # width of a frame's feature, for each key of the observation

    def __post_init__(self) -> None:
        choices(self)
        positive(self, "history", "dim")
        if not self.hidden:
            raise ConfigError("encoder.hidden is empty: give the points of a cloud at least one layer, e.g. 64 128 256")
        if self.frame in ("reach", "motion") and self.history == 1:
            raise ConfigError(
                f"encoder.frame = {self.frame!r} and encoder.history = 1: one frame does not tell motion; raise"
                " encoder.history to 2, or choose encoder.frame = 'world'"
            )

    @property
    def at_hand(self) -> bool:
        """Whether clouds are relative to the hand."""
        return self.frame in ("hand", "reach")

    @property
    def frames(self) -> int:
        """H: frames of a condition."""
        return self.history + self.first


@dataclass(frozen=True)
class AugmentationConfig:
    """What training does to observations; nothing of it happens when acting."""

    points: int = 256  # random subset of each cloud a step; 0 = all
    cloud_noise: float = 0.002  # metres, on each point
    state_noise: float = 0.0  # on the normalised state
    rotation: float = 0.0  # degrees at most: demonstrations turned about the hand (data/augmentation.py)
    stretch: float = 0.0  # share at most: demonstrations stretched in x and y about the hand

    def __post_init__(self) -> None:
        not_negative(self, "points", "cloud_noise", "state_noise", "rotation")
        fraction(self, "stretch")

    @property
    def warps(self) -> bool:
        return bool(self.rotation or self.stretch)


@dataclass(frozen=True)
class TrainingConfig:
    steps: int = 2000  # of the policy's last stage
    batch: int = 128  # samples a step
    segment: int = 8  # consecutive windows drawn together, so that they share encoded frames
    early: float = 1.0  # times are drawn as T * u ** early: above 1 the start of an episode comes more often
    learning_rate: float = 2e-3
    warmup: int = 100
    weight_decay: float = 1e-6
    auxiliary: float = 0.0  # weight of a regression of the next actions from the condition alone; teaches the encoder
    ema_decay: float = 0.995  # of the weights used for acting
    precision: Literal["auto", "bf16", "fp32"] = "auto"  # of autocast; auto: bf16 where the processor has it
    eval_every: int = 400  # steps between evaluations in training; 0 = none
    eval_episodes: int = 10
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        choices(self)
        positive(self, "steps", "batch", "segment", "learning_rate", "eval_episodes", "checkpoint_every", "early")
        not_negative(self, "warmup", "weight_decay", "auxiliary", "eval_every")
        fraction(self, "ema_decay")


@dataclass(frozen=True)
class Sampling:
    """How a policy acts; may be changed without training again. A policy with more to choose extends it."""

    execution_horizon: int = 5  # actions between two plans

    def __post_init__(self) -> None:
        choices(self)
        positive(self, "execution_horizon")

    def changed(self, **changes: Any) -> Self:
        """With other options; an unknown name is answered as everywhere."""
        known = [one.name for one in fields(self)]
        for name in changes:
            if name not in known:
                raise UnknownNameError("sampling option", name, known)
        return dataclasses.replace(self, **changes)


def changed(config: Any, changes: Mapping[str, Any]) -> Any:
    """A nested dataclass with other values: `changed(config, {"seed": 1, "policy.masking.start": 0.2})`.

    All changes of one dataclass are made at once, so that values that only fit together can be set together.
    """
    inner: dict[str, dict[str, Any]] = {}
    own: dict[str, Any] = {}
    known = {one.name for one in fields(config)}
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        if name not in known:
            raise UnknownNameError(f"field of {type(config).__name__}", name, known)
        if rest:
            inner.setdefault(name, {})[rest] = value
        else:
            own[name] = value
    nested = {name: changed(getattr(config, name), values) for name, values in inner.items()}
    return dataclasses.replace(config, **nested, **own)


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    out: dict[str, Any] = {}
    for key, value in values.items():
        out |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return out


def from_dict(cls: type, values: Mapping[str, Any]) -> Any:
    """A dataclass from nested dicts; unknown fields are refused by name."""
    hints = get_type_hints(cls)
    known = {one.name for one in fields(cls)}
    kwargs = {}
    for name, value in values.items():
        if name not in known:
            raise UnknownNameError(f"field of {cls.__name__}", name, known)
        hint = hints[name]
        if dataclasses.is_dataclass(hint):
            value = from_dict(hint, value)  # type: ignore[arg-type]
        elif isinstance(value, list):
            value = tuple(value)
        kwargs[name] = value
    return cls(**kwargs)


def digest(values: Any) -> str:
    """Twelve digits that tell one configuration from another."""
    content = dataclasses.asdict(values) if dataclasses.is_dataclass(values) else values  # type: ignore[arg-type]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
