"""Configuration: frozen dataclasses, one comment a field. The named ones are in presets.py."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mgp.errors import ConfigError, UnknownNameError


def _positive(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not value > 0:  # NaN too
            raise ConfigError(f"{type(owner).__name__}.{name} = {value}: must be above 0")


def _not_negative(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not value >= 0:
            raise ConfigError(f"{type(owner).__name__}.{name} = {value}: must be 0 or above")


def _fraction(owner: object, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not 0.0 <= value <= 1.0:
            raise ConfigError(f"{type(owner).__name__}.{name} = {value}: must lie in [0, 1]")


def _choices(owner: object) -> None:
    """Every field with a fixed set of values holds one of them."""
    for name, hint in get_type_hints(type(owner)).items():
        value = getattr(owner, name)
        if get_origin(hint) is Literal and value not in get_args(hint):
            raise UnknownNameError(f"value of {type(owner).__name__}.{name}", str(value), map(str, get_args(hint)))


@dataclass(frozen=True)
class EnvConfig:
    name: str = "metaworld/assembly"  # as `mgp envs` lists it
    observation: Literal["state", "cloud"] = "cloud"
    points: int = 512  # of a cloud; 1024 in the paper
    demonstrations: int = 10  # successful expert episodes to learn from
    seed: int = 0  # first candidate seed of the demonstrations
    horizon: int = 200  # control steps of an episode

    def __post_init__(self) -> None:
        _choices(self)
        _positive(self, "points", "demonstrations", "horizon")
        _not_negative(self, "seed")

    @property
    def options(self) -> dict[str, Any]:
        """What `make_env` takes beside name and observation mode."""
        return {"horizon": self.horizon} | ({"points": self.points} if self.observation == "cloud" else {})


@dataclass(frozen=True)
class TokenizerConfig:
    window: int = 8  # actions in a training window; 8 Short, 128 Long
    actions_per_token: int = 4  # 2, 4 or 8: one stride-2 stage each doubling
    codes: int = 1024  # size of the codebook
    code_dim: int = 16
    width: int = 64  # channels of the convolutions
    residual_blocks: int = 2  # in each stage
    dilation_growth: int = 3
    reconstruction_weight: float = 1.0  # lambda_rec of the paper's equation 1
    commit_weight: float = 0.02  # beta of equation 1
    ema_decay: float = 0.99  # of the codebook statistics
    reset_after: int = 40  # training steps without use until a code is dead and re-seeded
    steps: int = 2000
    batch: int = 256
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        _positive(self, "window", "codes", "code_dim", "width", "reset_after", "steps", "batch", "learning_rate")
        _positive(self, "dilation_growth")
        _not_negative(self, "residual_blocks", "reconstruction_weight", "commit_weight")
        _fraction(self, "ema_decay")
        if self.actions_per_token not in (2, 4, 8):
            raise ConfigError(f"actions_per_token = {self.actions_per_token}: choose 2, 4 or 8 (stride-2 stages)")
        if self.window % self.actions_per_token:
            raise ConfigError(
                f"tokenizer.window = {self.window} is no multiple of actions_per_token = {self.actions_per_token}:"
                f" choose {self.window // self.actions_per_token * self.actions_per_token or self.actions_per_token}"
            )


@dataclass(frozen=True)
class EncoderConfig:
    history: int = 2  # newest frames the policy looks at; 4 in the paper
    stride: int = 1  # control steps between two of those frames
    first: bool = False  # Long: beside the newest frames, the first of the episode, which shows what later ones hide
    colour: bool = False  # see the colours of a cloud's points; the demonstrations must have them
    frame: Literal["world", "hand"] = "hand"  # hand: clouds relative to state[:3], so that position does not tell
    motion: bool = False  # world frame: beside each frame's state, how it differs from the newest, at its own scale
    hidden: tuple[int, ...] = (64, 128, 256)  # per-point widths; DP3: 64 128 256
    zoom: tuple[float, ...] = ()  # extra point inputs tanh(zoom * normalised xyz): resolution near the origin
    cloud_dim: int = 64  # width of a frame's cloud feature
    state_hidden: tuple[int, ...] = (64,)
    state_dim: int = 64  # width of a frame's state feature

    def __post_init__(self) -> None:
        _choices(self)
        _positive(self, "history", "stride", "cloud_dim", "state_dim")
        if not self.hidden:
            raise ConfigError("encoder.hidden is empty: give the points of a cloud at least one layer, e.g. 64 128 256")

    @property
    def frames(self) -> int:
        """H: frames of a condition."""
        return self.history + self.first


@dataclass(frozen=True)
class TransformerConfig:
    dim: int = 256
    heads: int = 4
    cross_layers: int = 2  # attention to the observation, first
    self_layers: int = 2  # attention among tokens, after
    local: int = 0  # neighbours on either side that a convolution shows each token before attention; 0 = none
    block_size: int = 54  # tokens at most
    dropout: float = 0.0
    # a token's place; relative: its index minus the executed tokens; absolute: its index (paper); both: each of the two
    time: Literal["relative", "absolute", "both"] = "relative"
    head: Literal["linear", "codebook"] = "linear"  # codebook: logits from distances to the code vectors

    def __post_init__(self) -> None:
        _choices(self)
        _positive(self, "dim", "heads", "block_size")
        _not_negative(self, "cross_layers", "self_layers", "local")
        _fraction(self, "dropout")
        if self.dim % self.heads:
            raise ConfigError(f"transformer.dim = {self.dim} is no multiple of heads = {self.heads}")


@dataclass(frozen=True)
class MaskingConfig:
    """How training corrupts tokens. For Short only the schedule, `perturb` and `soft_labels` matter."""

    schedule: Literal["cosine", "uniform"] = "cosine"  # mask ratio: cos(pi r / 2) as MaskGIT, or U(0.5, 1) as MMM
    perturb: float = 0.1  # share of visible tokens swapped for random codes
    soft_labels: float = (
        0.0  # temperature of distance-aware targets, in mean squared nearest-code distances; 0 = one-hot
    )
    end: bool = True  # Long: an episode shorter than the horizon closes with [END]; else its last action goes on
    cut: float = 0.3  # share of Long sequences cut to a random length and closed by [END]
    start: float = 0.1  # share of Long samples with nothing executed yet (t = 0)
    prefix_dropout: float = 0.5  # share of Long samples whose executed prefix is masked as a whole
    foreign_prefix: float = 0.0  # share of Long samples whose executed prefix is another demonstration's
    foreign_plan: float = 0.0  # share of Long samples whose visible pending tokens are another demonstration's
    # share of Long samples, t > 0, that look at another demonstration in like motion: the plan tells what goes on
    foreign_frame: float = 0.0
    near_weight: float = 1.0  # loss weight of the tokens that would be executed next
    prefix_weight: float = 0.1  # loss weight of tokens already executed

    def __post_init__(self) -> None:
        _choices(self)
        _fraction(self, "perturb", "cut", "start", "prefix_dropout", "foreign_prefix", "foreign_plan", "foreign_frame")
        _not_negative(self, "soft_labels", "near_weight", "prefix_weight")


@dataclass(frozen=True)
class SamplingConfig:
    temperature: float = 0.0  # of Gumbel-max; 0 = argmax
    refine_steps: int = 2  # r: rounds of fill-in and re-mask
    execution_horizon: int = 5  # actions between two plans
    mask_ratio: float = 0.7  # Long: share of the unexecuted tokens that ATR re-masks
    scoring: Literal["atr", "reuse", "random", "inverse"] = "atr"  # which tokens look unsure; inverse masks the surest
    # Long: a confidence is that of all codes near the one; width of the kernel in mean squared nearest-code distances
    near_codes: float = 0.0
    see_pending: bool = False  # Long: score a token with the rest of the plan in view, or from c_t and H alone
    variant: Literal["long", "full", "no-sm"] = "long"  # full: never replan; no-sm: re-mask all that is unexecuted
    see_prefix: bool = True  # Long: condition on the executed tokens
    allow_end: bool = False  # let a plan end early with [END]; what follows holds position

    def __post_init__(self) -> None:
        _choices(self)
        _positive(self, "refine_steps", "execution_horizon")
        _fraction(self, "mask_ratio")
        _not_negative(self, "near_codes")
        if not self.temperature >= 0:
            raise ConfigError(f"temperature = {self.temperature}: must be 0 (argmax) or above")

    def changed(self, **changes: Any) -> SamplingConfig:
        """With other options; an unknown name is answered as everywhere."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise UnknownNameError("sampling option", name, known)
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True)
class TrainingConfig:
    steps: int = 2000  # of stage 2
    batch: int = 128  # windows (Short) or sequences (Long) a step
    segment: int = 8  # Short: consecutive windows drawn together, so that they share encoded frames
    early: float = 1.0  # times are drawn as T * u ** early: above 1 the start of an episode comes more often
    learning_rate: float = 1e-3
    warmup: int = 100
    weight_decay: float = 1e-6
    gradient_clip: float = 1.0
    auxiliary: float = 0.0  # weight of a regression of the next actions from the condition alone; teaches the encoder
    ema_decay: float = 0.995  # of the weights used for acting
    precision: Literal["bf16", "fp32"] = "bf16"  # of autocast
    train_points: int = 256  # random subset of each cloud a step; 0 = all
    cloud_noise: float = 0.002  # metres, on each point
    shift_noise: float = 0.0  # metres, on the whole cloud of a frame
    state_noise: float = 0.0  # on the normalised state
    warp: float = 0.5  # share of the samples that are turned and stretched; the others stay as demonstrated
    rotation: float = 0.0  # degrees at most: demonstrations turned about the hand (training/augmentation.py)
    stretch: float = 0.0  # share at most: demonstrations stretched in x and y about the hand
    eval_every: int = 0  # steps between evaluations in training; 0 = none
    eval_episodes: int = 20
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        _choices(self)
        _positive(self, "steps", "batch", "segment", "learning_rate", "eval_episodes", "checkpoint_every")
        _positive(self, "gradient_clip")
        _not_negative(self, "warmup", "weight_decay", "train_points", "cloud_noise", "shift_noise", "state_noise")
        _not_negative(self, "eval_every")
        _not_negative(self, "rotation")
        _positive(self, "early")
        _fraction(self, "ema_decay", "stretch", "warp")


@dataclass(frozen=True)
class Config:
    preset: str = "metaworld-short"  # `mgp envs` lists them
    policy: Literal["short", "long"] = "short"
    seed: int = 0  # of weights, batches and masks
    env: EnvConfig = field(default_factory=EnvConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    transformer: TransformerConfig = field(default_factory=TransformerConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        _choices(self)
        per, run = self.tokenizer.actions_per_token, self.sampling.execution_horizon
        if self.tokens > self.transformer.block_size:
            raise ConfigError(
                f"{self.tokens} tokens do not fit transformer.block_size = {self.transformer.block_size}: raise it,"
                f" shorten env.horizon = {self.env.horizon}, or raise tokenizer.actions_per_token = {per}"
            )
        if self.env.observation == "state" and self.encoder.frame == "hand":
            raise ConfigError(
                "encoder.frame = 'hand' takes the state for points (hand, fingers), which that of"
                " env.observation = 'state' is not: choose encoder.frame = 'world'"
            )
        if self.encoder.frame == "hand" and self.encoder.motion:
            raise ConfigError(
                "encoder.motion = True: encoder.frame = 'hand' tells motion already; set one of them only"
            )
        if self.encoder.motion and self.encoder.history == 1:
            raise ConfigError(
                "encoder.motion = True and encoder.history = 1: one frame does not tell motion; raise encoder.history"
                " to 2, or set encoder.motion to False"
            )
        if self.encoder.frame == "world" and (self.training.rotation or self.training.stretch):
            raise ConfigError(
                f"training.rotation = {self.training.rotation} and training.stretch = {self.training.stretch} turn"
                " things about the hand: choose encoder.frame = 'hand', or set both to 0"
            )
        if self.policy == "short" and self.encoder.first:
            raise ConfigError("encoder.first = True: MGP-Short remembers nothing; choose policy = 'long', or False")
        if self.policy == "short":
            room = self.tokenizer.window - self.past
            if run > room:
                raise ConfigError(
                    f"execution_horizon = {run} exceeds the {room} actions left of window = {self.tokenizer.window}"
                    f" after {self.past} past ones: lower it or widen tokenizer.window"
                )
        elif run % per:
            raise ConfigError(
                f"execution_horizon = {run} is no multiple of actions_per_token = {per} (Long runs tokens)"
            )

    @property
    def past(self) -> int:
        """Actions of a Short window that lie in the past: the window starts at the oldest frame."""
        return (self.encoder.history - 1) * self.encoder.stride if self.policy == "short" else 0

    @property
    def near(self) -> int:
        """Actions that training also regresses from the condition: the window (Short), or three tokens' worth."""
        return self.tokenizer.window if self.policy == "short" else 3 * self.tokenizer.actions_per_token

    @property
    def tokens(self) -> int:
        """N: tokens of a plan."""
        steps = self.tokenizer.window if self.policy == "short" else self.env.horizon
        return -(-steps // self.tokenizer.actions_per_token)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Config:
        return _build(cls, json.loads(text))


def _build(cls: type, values: dict[str, Any]) -> Any:
    """A dataclass from nested dicts; unknown fields are refused by name."""
    hints = get_type_hints(cls)
    known = {f.name for f in fields(cls)}
    kwargs = {}
    for name, value in values.items():
        if name not in known:
            raise UnknownNameError(f"field of {cls.__name__}", name, known)
        hint = hints[name]
        if dataclasses.is_dataclass(hint):
            value = _build(hint, value)  # type: ignore[arg-type]
        elif isinstance(value, list):
            value = tuple(value)
        kwargs[name] = value
    return cls(**kwargs)
