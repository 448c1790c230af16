"""What the tests of the U-Net policies share."""

from __future__ import annotations

import torch
from torch import Tensor

import small
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.policies import policy_class
from mgp.policies.denoising import DenoisingPolicy


def overfit(method: str, steps: int, rate: float = 1e-2, **changes: object) -> tuple[float, DenoisingPolicy]:
    """A tiny policy of the method after training on one short episode, and its error, that of holding still being 1."""
    unet = {"policy.unet.widths": (16, 32), "policy.unet.blocks": 1, "policy.unet.dropout": 0.0, "policy.horizon": 8}
    config = small.tiny_of(method, **{**unet, **changes})
    data = small.demonstrations(lengths=(12,))
    made = policy_class(config.policy.name).build(config, data)
    for number, stage in enumerate(made.stages()):
        weights, source = made.begin_stage(stage), made.source(stage, data)
        optimizer = torch.optim.AdamW(weights.values(), lr=rate, weight_decay=0.0)
        made.train()
        for step in range(steps):
            generator = keyed_generator(number, step)
            loss, _ = made.loss(stage, source.draw(16, generator), generator)
            for group in optimizer.param_groups:
                group["lr"] = rate * (1 - step / steps)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    made.eval()
    return error(made, data), made


@torch.inference_mode()
def error(made: DenoisingPolicy, data: Demonstrations) -> float:
    generator = keyed_generator(7)
    batch = made.source(made.stages()[-1], data).draw(32, generator)
    told = made.predict(made.condition(batch.looks), [keyed_generator(row) for row in range(32)])
    right = batch.actions[:, made.past :]
    return float((told - right).abs().mean() / right.abs().mean())


class Planted:
    """Stands for a network: `told(x, step)`; remembers at which steps it was asked."""

    def __init__(self, told):
        self.told, self.steps = told, []

    def __call__(self, x: Tensor, step: Tensor, condition: Tensor, *more: Tensor) -> Tensor:
        self.steps.append(step)
        return self.told(x, step, *more)


def plant(made: DenoisingPolicy, told) -> Planted:
    planted = Planted(told)
    made._modules.pop("unet", None)  # a function is no module
    object.__setattr__(made, "unet", planted)
    return planted
