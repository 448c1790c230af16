"""The two stages of training: what is learned, and the loss of one step."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from mgp.config import Config
from mgp.data.demonstrations import Demonstrations
from mgp.model.network import MGPNetwork
from mgp.training.augmentation import draw_warps, warp_actions
from mgp.training.batches import Batch, LongBatches, ShortBatches
from mgp.training.losses import soft_targets, token_loss


class Stage(ABC):
    name: str
    steps: int
    batch: int
    learning_rate: float
    weight_decay: float = 0.0
    warmup: int = 50

    def __init__(self, network: MGPNetwork, demonstrations: Demonstrations, config: Config, device: torch.device):
        self.network, self.demonstrations, self.config, self.device = network, demonstrations, config, device

    @abstractmethod
    def parameters(self) -> dict[str, nn.Parameter]: ...

    @abstractmethod
    def loss(self, batch: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of one step and figures for the log; everything random comes from the generator."""


class TokenizerStage(Stage):
    name = "tokenizer"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        config = self.config.tokenizer
        self.steps, self.batch, self.learning_rate = config.steps, config.batch, config.learning_rate

    def parameters(self) -> dict[str, nn.Parameter]:
        return {f"tokenizer.{name}": p for name, p in self.network.tokenizer.named_parameters()}

    def loss(self, batch: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        demos, window = self.demonstrations, self.config.tokenizer.window
        # windows may hang over an episode's ends by all but one token, as those of a policy do
        margin = self.config.tokenizer.actions_per_token
        episode = torch.randint(len(demos.ends), (batch,), generator=generator)
        span = (demos.lengths[episode] - window).clamp_min(0) + 2 * margin
        offset = (torch.rand(batch, generator=generator) * (span + 1)).long() - margin
        actions = demos.action_windows(demos.starts[episode] + offset, window, episode)
        warps = draw_warps(batch, self.config.training, generator)
        if warps is not None:
            actions = warp_actions(actions, warps)
        normal = self.network.normalizer.normalize("action", actions.to(self.device)).clamp(-1, 1)
        out = self.network.tokenizer.training_loss(normal, generator)
        in_use = (self.network.tokenizer.codebook.unused == 0).sum()
        figures = {"reconstruction": out.reconstruction, "commit": out.commit, "codes": in_use}
        return out.total, {key: value.detach() for key, value in figures.items()}


class PolicyStage(Stage):
    name = "policy"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        config = self.config.training
        self.steps, self.batch, self.learning_rate = config.steps, config.batch, config.learning_rate
        self.weight_decay, self.warmup = config.weight_decay, config.warmup
        source = LongBatches if self.config.policy == "long" else ShortBatches
        self.batches = source(self.demonstrations, self.config, self.network)
        self.soft = soft_targets(self.network.tokenizer.codebook.codes, self.config.masking.soft_labels)

    def parameters(self) -> dict[str, nn.Parameter]:
        return self.network.trainable()

    def loss(self, batch: int, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        drawn: Batch = self.batches.draw(batch, generator)
        noise = None
        if self.config.training.state_noise:
            state = self.network.relative(drawn.state, None, drawn.cloud_state)[0]
            noise = self.config.training.state_noise * torch.randn(state.shape, generator=generator)
            noise = noise.to(self.device)
        cloud = None if drawn.cloud is None else drawn.cloud.to(self.device)
        frame = None if drawn.frame is None else drawn.frame.to(self.device)
        seen, target, weight = (value.to(self.device) for value in drawn.tokens)
        condition = self.network.condition(
            drawn.state.to(self.device), cloud, drawn.cloud_state.to(self.device), frame, noise
        )
        logits = self.network.transformer(seen, condition, drawn.executed.to(self.device))
        loss = token_loss(logits, target, weight, self.soft)
        hidden = (seen == self.network.transformer.vocabulary.mask) & (weight > 0)
        right = (logits.argmax(-1) == target)[hidden].float().mean()
        figures = {"accuracy": right.detach()}
        if self.network.auxiliary is not None:
            actions = self.network.normalizer.normalize("action", drawn.actions.to(self.device)).clamp(-1, 1).flatten(1)
            regression = (self.network.auxiliary(condition.flatten(1)).float() - actions).abs().mean()
            loss = loss + self.config.training.auxiliary * regression
            figures["regression"] = regression.detach()
        return loss, figures


STAGES: tuple[type[Stage], ...] = (TokenizerStage, PolicyStage)
