from __future__ import annotations

import denoisers
import pytest
import torch

import small
from mgp.data.demonstrations import keyed_generator

WHERE = (4, 12, small.ACTION)


def test_one_step_of_a_straight_field_is_exact():
    made = small.untrained(small.tiny_of("flow-policy"))
    generators = lambda: [keyed_generator(row) for row in range(4)]  # noqa: E731
    noise, actions = made.noise(generators()), torch.rand(WHERE) - 0.5
    planted = denoisers.plant(made, lambda x, time: actions - noise)
    with torch.inference_mode():
        once = made.sample(torch.zeros(4, made.condition_width), generators())
        assert len(planted.steps) == 1
        assert planted.steps[0].item() == pytest.approx(0.99)  # .01 as the network is told it
        thrice = made.with_sampling(steps=3).sample(torch.zeros(4, made.condition_width), generators())
    torch.testing.assert_close(once, actions)
    torch.testing.assert_close(thrice, actions)


def test_a_straight_field_has_no_loss_and_another_one_has():
    made = small.untrained(small.tiny_of("flow-policy"))
    actions, condition = torch.rand(WHERE) - 0.5, torch.zeros(4, made.condition_width)
    noise = torch.randn(WHERE, generator=keyed_generator(3))  # the first that the loss draws
    denoisers.plant(made, lambda x, time: (actions - noise).repeat(2, 1, 1))
    stage = made.stages()[0]
    straight, figures = made.action_loss(stage, actions, condition, keyed_generator(3))
    assert straight < 1e-10
    assert figures["velocity_error"] < 1e-10
    denoisers.plant(made, lambda x, time: torch.zeros_like(x))
    assert made.action_loss(stage, actions, condition, keyed_generator(3))[0] > 1e-6


def test_learns_a_toy_set_by_heart():
    share, _ = denoisers.overfit("flow-policy", 200)
    assert share < 0.4
