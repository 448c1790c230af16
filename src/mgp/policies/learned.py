"""The contract of a learned policy: one class, one file.

It has a `Config`, builds its network from the run's configuration and the data's spec, says in which stages it is
trained and with which loss, and predicts actions. Everything else (batches, normaliser, observation encoder, training
loop, averaging, checkpoints, resuming, evaluation) is shared and knows no policy by name.

B windows, H frames, C condition width, T actions, A action width, O episodes with an observation.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from mgp.config import Sampling
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.normalizer import Normalizer
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch, Looks, Source, Windows
from mgp.errors import ConfigError, ObservationError, UnknownNameError
from mgp.model.encoders.state import mlp
from mgp.model.kept import Kept
from mgp.model.observation import ObservationEncoder, fit_normalizer
from mgp.policies.acting import acting
from mgp.policies.base import Chunk, Frame, Memory, Policy, check_observation
from mgp.policies.config import PolicyConfig, RunConfig

Figures = dict[str, Tensor]  # for the log


@dataclass(frozen=True)
class Stage:
    """A phase of training with an optimizer of its own; the last one ends with a policy that can act."""

    name: str
    steps: int
    batch: int
    learning_rate: float
    warmup: int = 50
    weight_decay: float = 0.0
    averaged: bool = False  # act with averaged weights (training.ema_decay)
    autocast: bool = False  # in bfloat16, if training.precision says so


@dataclass
class LearnedMemory(Memory):
    generators: tuple[torch.Generator, ...] = ()  # one an episode, so that a batch equals its rows alone
    kept: Kept = field(default_factory=Kept)  # features of the frames that the last plan saw


def merged(memories: Sequence[Memory]) -> LearnedMemory:
    """The rows of several memories as one; the generators are shared, and so go on where they are."""
    rows = [one for one in memories if isinstance(one, LearnedMemory)]
    assert len(rows) == len(memories)
    return LearnedMemory(
        tuple(seed for one in rows for seed in one.seeds),
        np.concatenate([one.last for one in rows]),
        tuple(generator for one in rows for generator in one.generators),
    )


class LearnedPolicy(nn.Module, Policy):
    """A subclass makes its modules in `__init__`, with `self.encoder` by `make_encoder`, and fills in the rest."""

    Config: ClassVar[type[PolicyConfig]]
    window: int  # T + past: actions of a training window, of which `past` lie before its newest frame
    engine: str = "torch"  # who computes its `@graph` functions (`mgp.engines`)

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__()
        if not isinstance(config.policy, self.Config):
            raise ConfigError(f"{type(self).__name__} was given the settings of {type(config.policy).__name__}")
        self.config, self.spec = config, spec
        self.history, self.first = config.encoder.history, config.encoder.first
        self.execution_horizon = config.policy.sampling.execution_horizon
        self.observation_shapes, self.observation_uint8 = dict(spec.shapes), spec.uint8
        self.normalizer = Normalizer({"action": spec.action})
        self.encoder: ObservationEncoder
        self.auxiliary: nn.Module | None = None  # see `auxiliary_loss`
        if config.augmentation.warps and (config.encoder.frame != "hand" or spec.actions != "displacement"):
            raise ConfigError(
                f"augmentation.rotation = {config.augmentation.rotation} and stretch = {config.augmentation.stretch}"
                f" turn what lies round the hand, but encoder.frame = {config.encoder.frame!r} and the actions are"
                f" {spec.actions!r}: choose encoder.frame = 'hand' for displacements, or set both to 0"
            )

    def make_encoder(self) -> ObservationEncoder:
        return ObservationEncoder(self.config.encoder, self.spec)

    @property
    def condition_width(self) -> int:
        """H * C: numbers of a whole condition."""
        return self.config.encoder.frames * self.encoder.dim

    def make_auxiliary(self, actions: int) -> nn.Module | None:
        """A head that regresses so many next actions from the condition alone; None if nothing asks for it."""
        if not self.config.training.auxiliary:
            return None
        return mlp((self.condition_width, 256, actions * self.spec.action))

    @classmethod
    def build(cls, config: RunConfig, demonstrations: Demonstrations) -> Self:
        """Fresh weights from the seed, with the demonstrations' limits in the normaliser."""
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            policy = cls(config, DataSpec.of(demonstrations))
        policy.check()
        policy.normalizer = fit_normalizer(config.encoder, config.augmentation, demonstrations)
        return policy

    # --- training -------------------------------------------------------------------------------------------------

    def stages(self) -> tuple[Stage, ...]:
        training = self.config.training
        return (
            Stage(
                "policy",
                training.steps,
                training.batch,
                training.learning_rate,
                training.warmup,
                training.weight_decay,
                averaged=True,
                autocast=training.precision != "fp32",
            ),
        )

    def begin_stage(self, stage: Stage) -> dict[str, nn.Parameter]:
        """Prepare for a stage (freeze, adopt, ...) and name the parameters it trains. Called on resuming, too."""
        return dict(self.named_parameters())

    def source(self, stage: Stage, demonstrations: Demonstrations) -> Source:
        """Where the stage's batches come from; plain windows unless a policy needs others."""
        config = self.config
        return Windows(demonstrations, config.encoder, config.augmentation, config.training, self.window, self.past)

    @abstractmethod
    def loss(self, stage: Stage, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Figures]:
        """Loss of one step and figures for the log; everything random comes from the generator (on the CPU)."""

    def condition(
        self, looks: Looks, generator: torch.Generator | None = None, memory: LearnedMemory | None = None
    ) -> Tensor:
        """Observations to the condition (B, H, C); with a generator, noisy as training wants it.

        With a memory, frames that the last plan saw are not encoded again.
        """
        noise = None
        if generator is not None:
            noise = self.encoder.noise(looks, self.config.augmentation.state_noise, generator)
            noise = None if noise is None else noise.to(looks.which.device)
        return self.encoder(looks, self.normalizer, noise, None if memory is None else memory.kept)

    def condition_apart(self, looks: Looks, memory: LearnedMemory) -> list[Tensor]:
        """The parts that `self.encoder.join` makes the condition of: for a graph that begins with it."""
        return self.encoder(looks, self.normalizer, kept=memory.kept, apart=True)

    def normal_actions(self, actions: Tensor) -> Tensor:
        """Raw actions to [-1, 1], the demonstrated limits."""
        return self.normalizer.normalize("action", actions).clamp(-1, 1)

    def raw_actions(self, normal: Tensor) -> Tensor:
        """Normalised actions to the environment's units, inside the demonstrated limits."""
        return self.normalizer.denormalize("action", normal.clamp(-1, 1))

    def auxiliary_loss(self, condition: Tensor, actions: Tensor) -> tuple[Tensor | float, Figures]:
        """Weighted error of a regression of raw actions (B, T, A) from the condition (B, H, C): teaches the encoder."""
        if self.auxiliary is None:
            return 0.0, {}
        error = self.auxiliary(condition.flatten(1)).float() - self.normal_actions(actions).flatten(1)
        regression = error.abs().mean()
        return self.config.training.auxiliary * regression, {"regression": regression.detach()}

    def frozen(self) -> dict[str, str]:
        """Fingerprints of parts that must not change after their stage; a checkpoint is refused if one differs."""
        return {}

    # --- acting ---------------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return self.normalizer.action_scale.device  # type: ignore[return-value]

    @property
    def label(self) -> str:
        """How tables and reports call it, as it is sampled now."""
        return self.config.method

    def begin(self, seeds: Sequence[int]) -> LearnedMemory:
        still = np.tile(np.nan_to_num(self.spec.hold_command), (len(seeds), 1))
        generators = tuple(keyed_generator(self.config.seed, int(seed)) for seed in seeds)
        return LearnedMemory(tuple(seeds), still, generators)

    @acting
    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        """Predicts where an observation arrived; the others hold. A policy with a plan of its own overrides this."""
        assert isinstance(memory, LearnedMemory)
        looks, seen = self.look(observation, memory, observed)
        actions = np.repeat(self.holding(memory)[:, None], self.window - self.past, axis=1)  # (B, T, A)
        if looks is not None:
            generators = [one for one, there in zip(memory.generators, seen, strict=True) if there]
            actions[seen] = self.predict(self.condition(looks, memory=memory), generators).cpu().numpy()
        return Chunk(actions, self.execution_horizon)

    def together(self, memories: Sequence[Memory]) -> Memory | None:
        """Any rows make a batch, if nothing but the generators is kept between plans."""
        if type(self).plan is not LearnedPolicy.plan or type(self).begin is not LearnedPolicy.begin:
            return None
        return merged(memories)

    @abstractmethod
    def predict(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """The condition (O, H, C) to raw actions (O, T, A) from now on."""

    def holding(self, memory: Memory) -> np.ndarray:
        """(B, A) the action that keeps each robot where it is."""
        hold = self.spec.hold_command
        return np.where(np.isnan(hold), memory.last, hold).astype(np.float32)

    def look(self, observation: Frame, memory: Memory, observed: np.ndarray | None) -> tuple[Looks | None, np.ndarray]:
        """Checked observations of the episodes that have one, None without any, and which these are (B,)."""
        batch = len(memory.seeds)
        seen = np.ones(batch, dtype=bool) if observed is None else np.asarray(observed, dtype=bool)
        if seen.shape != (batch,):
            raise ObservationError(
                f"observed has shape {seen.shape} for {batch} episodes: begin with one seed for each"
            )
        arrays = self.seen(observation)
        for key, value in arrays.items():
            if value.shape[:2] != (batch, self.frames):
                raise ObservationError(
                    f"{key!r} has shape {value.shape}: need ({batch}, {self.frames}, ...), a row for each episode"
                    " that was begun and a column for each frame of history"
                )
        everybody = bool(seen.all())
        frames = arrays if everybody else {key: value[seen] for key, value in arrays.items()}
        check_observation(frames, self.observation_shapes, 2, self.observation_uint8)
        if not everybody and not seen.any():
            return None, seen
        instruction = self._instruction(observation, seen) if self.spec.instructions else None
        tensors = {key: torch.as_tensor(value, device=self.device) for key, value in frames.items()}
        tensors = {key: value if value.dtype == torch.uint8 else value.float() for key, value in tensors.items()}
        state = tensors.pop("state", None)  # (O, H, S)
        hand = None if state is None else state[..., :3].flatten(0, 1)  # (O H, 3)
        index = torch.arange(int(seen.sum()) * self.frames, device=self.device).view(-1, self.frames)
        heavy = {key: value.flatten(0, 1) for key, value in tensors.items()}
        return Looks(state, heavy, index, hand, instruction), seen

    def _instruction(self, observation: Frame, seen: np.ndarray) -> Tensor:
        """Which instruction each observed episode was given, (O,)."""
        texts = observation.get("instruction")
        if texts is None:
            raise ObservationError(
                f"observation has no 'instruction', one of {list(self.spec.instructions)}: say what is to be done"
            )
        chosen = [text for text, there in zip(texts, seen, strict=True) if there]
        for text in chosen:
            if text not in self.spec.instructions:
                raise UnknownNameError("instruction", str(text), self.spec.instructions)
        places = [self.spec.instructions.index(text) for text in chosen]
        return torch.tensor(places, device=self.device)

    def check(self) -> None:
        """Refuse sampling options that this policy cannot follow; called when it is built and sampled otherwise."""
        room = self.window - self.past
        if self.execution_horizon > room:
            raise ConfigError(
                f"execution_horizon = {self.execution_horizon} exceeds the {room} actions left of a window of"
                f" {self.window} after {self.past} past ones: lower it or widen the window"
            )

    @property
    def sampling(self) -> Sampling:
        return self.config.policy.sampling

    def with_sampling(self, **changes: Any) -> Self:
        """The same weights, sampled otherwise: `policy.with_sampling(execution_horizon=4)`."""
        other = copy.copy(self)  # shares the weights
        other.__dict__.pop("driver", None)
        policy = replace(self.config.policy, sampling=self.sampling.changed(**changes))
        other.config = replace(self.config, policy=policy)
        other.execution_horizon = other.sampling.execution_horizon
        other.check()
        return other
