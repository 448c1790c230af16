"""The configuration of a run, whatever its policy, and named methods: a policy with all its settings but the task."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mgp.config import AugmentationConfig, EncoderConfig, Sampling, TaskConfig, TrainingConfig, changed, from_dict
from mgp.data.spec import Actions
from mgp.errors import ConfigError

# What helps every policy where actions displace the hand: the hand's frame, seen finely near it, and demonstrations
# turned and stretched about it.
ENCODER = EncoderConfig(zoom=(4.0, 16.0))
AUGMENTATION = AugmentationConfig(rotation=15.0, stretch=0.2)
# Where they are places on the table instead, the hand is seen in the world's frame, and nothing is turned.
ABSOLUTE: Mapping[str, Any] = {
    "encoder.frame": "reach",
    "augmentation.rotation": 0.0,
    "augmentation.stretch": 0.0,
    "augmentation.state_noise": 0.02,
}
# Where the data do not tell the hand's place, nothing can be seen from it.
NO_HAND: Mapping[str, Any] = {
    "encoder.frame": "world",
    "encoder.zoom": (),
    "augmentation.rotation": 0.0,
    "augmentation.stretch": 0.0,
}


@dataclass(frozen=True)
class PolicyConfig:
    """Base of each policy's own settings. `sampling` is what `mgp eval` may change."""

    name: ClassVar[str]  # of the policy, as registered
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True)
class RunConfig:
    method: str = ""  # `mgp envs` lists them
    seed: int = 0  # of weights, batches and masks
    task: TaskConfig = field(default_factory=TaskConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)

    def to_json(self) -> str:
        content = dataclasses.asdict(self)
        content["policy"] = {"name": self.policy.name, **content["policy"]}
        return json.dumps(content, indent=2)

    @classmethod
    def from_json(cls, text: str) -> RunConfig:
        from mgp.policies import policy_class  # the registry, which imports this module

        try:
            content = json.loads(text)
            policy = dict(content.pop("policy"))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"the {len(text)} characters of a configuration are no JSON object with a policy ({error!r}): was the"
                " file cut off?"
            ) from error
        own = from_dict(policy_class(policy.pop("name")).Config, policy)
        return dataclasses.replace(from_dict(cls, content), policy=own)

    def changed(self, changes: Mapping[str, Any]) -> RunConfig:
        """By dotted names: `config.changed({"seed": 1, "policy.sampling.temperature": 0.5})`."""
        return changed(self, changes)


@dataclass(frozen=True)
class Method:
    """A named recipe, and what differs by dotted names where actions are places."""

    policy: PolicyConfig
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    absolute: Mapping[str, Any] = field(default_factory=dict)

    def config(self, name: str, task: TaskConfig, actions: Actions) -> RunConfig:
        config = RunConfig(name, 0, task, self.encoder, self.augmentation, self.training, self.policy)
        return config.changed(self.absolute) if actions == "absolute" else config


def released(policy: PolicyConfig, training: TrainingConfig, history: int) -> Method:
    """As the releases look at clouds: DP3's encoder in the world's frame, nothing augmented, plain training."""
    encoder = EncoderConfig(history, frame="world")
    plain = dataclasses.replace(training, segment=1, ema_decay=0.0, precision="fp32")
    return Method(policy, encoder, AugmentationConfig(points=0, cloud_noise=0.0), plain)
