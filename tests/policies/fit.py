"""Any policy, trained for a few steps in memory: no run folder, no schedule, no averages."""

from __future__ import annotations

from typing import Any

import torch

import small
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.policies import policy_class
from mgp.policies.config import RunConfig
from mgp.policies.learned import LearnedPolicy, Stage
from mgp.training.loop import GRADIENT_NORM


def step(policy: LearnedPolicy, stage: Stage, source: Any, optimizer: torch.optim.Optimizer, seed: int) -> float:
    policy.train()
    generator = keyed_generator(seed)
    with torch.autocast("cpu", torch.bfloat16, enabled=stage.autocast):
        loss, _ = policy.loss(stage, source.draw(stage.batch, generator), generator)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), GRADIENT_NORM)
    optimizer.step()
    return loss.item()


def fit(
    config: RunConfig, data: Demonstrations | None = None, learning_rate: float | None = None
) -> tuple[LearnedPolicy, dict[str, list[float]]]:
    """The policy after its stages, ready to act, and the losses of each of them."""
    data = data or small.demonstrations(config.task.observation)
    policy = policy_class(config.policy.name).build(config, data)
    losses = {}
    for number, stage in enumerate(policy.stages()):
        parameters = list(policy.begin_stage(stage).values())
        source = policy.source(stage, data)
        optimizer = torch.optim.AdamW(parameters, lr=learning_rate or stage.learning_rate)
        losses[stage.name] = [step(policy, stage, source, optimizer, 1000 * number + i) for i in range(stage.steps)]
    return policy.eval(), losses
