"""LeRobot's own Diffusion, ACT and VQ-BeT in the table of `python -m benchmarks.speed`; mgp itself never needs LeRobot.

LeRobot 0.4.4 is the newest for Python 3.11 and asks for an older torch, so it goes without its dependencies into a
folder of its own, with those that importing its policies needs (300 MB, two minutes):

    pip install --no-deps --target /tmp/lerobot lerobot==0.4.4 torchvision==0.28.0 draccus==0.10.0 typing-inspect \\
        mergedeep datasets multiprocess pandas pyarrow dill xxhash accelerate pyserial deepdiff orderly-set cachebox av
    PYTHONPATH=/tmp/lerobot python -m benchmarks.speed

Sizes and procedures are LeRobot's defaults. Diffusion and ACT get the features of the encoder that all others have, as
state and environment state; ACT knows one frame, so the environment state holds those of the others too. VQ-BeT insists
on a picture: it gets random ones of 96 pixels, five of them, through its own ResNet-18.
"""

from __future__ import annotations

import importlib.metadata
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mgp.data.demonstrations import Demonstrations
from mgp.data.normalizer import Normalizer
from mgp.data.spec import DataSpec
from mgp.data.windows import Looks
from mgp.evaluation.speed_table import Entry
from mgp.model.observation import ObservationEncoder, fit_normalizer
from mgp.policies.base import Chunk, Frame, Memory, Policy
from mgp.policies.config import RunConfig

STATE, ENVIRONMENT, PICTURES, PICTURE = (
    *("observation.state", "observation.environment_state", "observation.images"),
    "observation.image",
)
PIXELS = 96


def peers(
    demonstrations: Demonstrations, config: RunConfig, wanted: Collection[str] | None
) -> Iterator[tuple[Entry, Policy]]:
    """All that are wanted, by the paper's names; ImportError where LeRobot is not installed."""
    import_lerobot()
    sizes = f"LeRobot {importlib.metadata.version('lerobot')}"
    for name, (kind, note) in KINDS.items():
        if wanted is None or name in wanted:
            yield Entry(name, sizes, "", note=note), kind(demonstrations, config).eval()


def import_lerobot() -> None:
    """A torchvision that was built for CUDA does not load beside a torch without, unless two operators are declared."""
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in ("nms", "qnms"):
            TORCHVISION.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import lerobot.policies.diffusion.modeling_diffusion  # noqa: F401


TORCHVISION = torch.library.Library("torchvision", "FRAGMENT")  # what it declares goes with it


class Peer(nn.Module, Policy):
    """One of LeRobot's policies behind our contract: encodes the frames as others do, then asks it for a chunk."""

    def __init__(self, demonstrations: Demonstrations, config: RunConfig):
        super().__init__()
        spec = DataSpec.of(demonstrations)
        self.history, self.observation_shapes, self.action = config.encoder.history, dict(spec.shapes), spec.action
        self.encoder = ObservationEncoder(config.encoder, spec)
        self.normalizer: Normalizer = fit_normalizer(config.encoder, config.augmentation, demonstrations)
        self.width = config.encoder.dim  # of the feature of each key
        self.policy, self.execution_horizon = self.make()

    @abstractmethod
    def make(self) -> tuple[nn.Module, int]:
        """LeRobot's policy, and the actions of a chunk that are run."""

    @abstractmethod
    def chunk(self, condition: Tensor) -> Tensor:
        """The condition (1, H, C) to normalised actions (1, T, A)."""

    def begin(self, seeds: Sequence[int]) -> Memory:
        return Memory(tuple(seeds), np.zeros((len(seeds), self.action), np.float32))

    @torch.inference_mode()
    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        tensors = {key: torch.from_numpy(observation[key]) for key in self.observation_shapes}
        state = tensors.pop("state")  # (1, H, S)
        frames = {key: value.flatten(0, 1) for key, value in tensors.items()}
        which = torch.arange(self.history)[None]
        condition = self.encoder(Looks(state, frames, which, state[0, :, :3]), self.normalizer)
        actions = self.normalizer.denormalize("action", self.chunk(condition).clamp(-1, 1))
        return Chunk(actions.numpy(), self.execution_horizon)

    def features(self, state: int, environment: int) -> dict[str, Any]:
        """What LeRobot's configurations want to know of the data."""
        from lerobot.configs.types import FeatureType, PolicyFeature

        return {
            "input_features": {
                STATE: PolicyFeature(FeatureType.STATE, (state,)),
                ENVIRONMENT: PolicyFeature(FeatureType.ENV, (environment,)),
            },
            "output_features": {"action": PolicyFeature(FeatureType.ACTION, (self.action,))},
            "device": "cpu",
        }


class Diffusion(Peer):
    def make(self) -> tuple[nn.Module, int]:
        from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
        from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy

        rest = self.encoder.dim - self.width
        config = DiffusionConfig(n_obs_steps=self.history, **self.features(self.width, rest))
        return DiffusionPolicy(config), config.n_action_steps

    def chunk(self, condition: Tensor) -> Tensor:
        state, rest = condition[..., : self.width], condition[..., self.width :]
        return self.policy.diffusion.generate_actions({STATE: state, ENVIRONMENT: rest})


class ACT(Peer):
    def make(self) -> tuple[nn.Module, int]:
        from lerobot.policies.act.configuration_act import ACTConfig
        from lerobot.policies.act.modeling_act import ACTPolicy

        rest = self.history * self.encoder.dim - self.width
        config = ACTConfig(**self.features(self.width, rest), pretrained_backbone_weights=None)
        return ACTPolicy(config), config.n_action_steps

    def chunk(self, condition: Tensor) -> Tensor:
        flat = condition.flip(1).flatten(1)  # the newest frame first, whose first part is the state's
        return self.policy.predict_action_chunk({STATE: flat[:, : self.width], ENVIRONMENT: flat[:, self.width :]})


class VQBeT(Peer):
    def make(self) -> tuple[nn.Module, int]:
        from lerobot.configs.types import FeatureType, PolicyFeature
        from lerobot.policies.vqbet.configuration_vqbet import VQBeTConfig
        from lerobot.policies.vqbet.modeling_vqbet import VQBeTPolicy

        features = self.features(self.observation_shapes["state"][0], 1)
        features["input_features"] = {
            STATE: features["input_features"][STATE],
            PICTURE: PolicyFeature(FeatureType.VISUAL, (3, PIXELS, PIXELS)),
        }
        config = VQBeTConfig(**features)
        self.history = config.n_obs_steps
        self.encoder = None
        generator = torch.Generator().manual_seed(0)
        self.pictures = torch.rand(1, self.history, 1, 3, PIXELS, PIXELS, generator=generator)
        return VQBeTPolicy(config), config.action_chunk_size

    @torch.inference_mode()
    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        batch = {STATE: torch.from_numpy(observation["state"]), PICTURES: self.pictures}
        actions = self.policy.vqbet(batch, rollout=True)[:, : self.execution_horizon]
        return Chunk(self.normalizer.denormalize("action", actions.clamp(-1, 1)).numpy(), self.execution_horizon)


KINDS: dict[str, tuple[type[Peer], str]] = {
    "DP": (Diffusion, "DDPM 100"),
    "ACT": (ACT, "a chunk of 100, run as it is"),
    "VQ-BeT": (VQBeT, "sees pictures, by its own ResNet-18"),
}
