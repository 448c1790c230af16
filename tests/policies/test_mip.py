from __future__ import annotations

import denoisers
import pytest
import torch

import small
from mgp.data.demonstrations import keyed_generator
from mgp.errors import ConfigError
from mgp.policies.mip import MIPConfig

WHERE = (4, 12, small.ACTION)


def test_a_right_first_guess_is_a_fixed_point():
    made = small.untrained(small.tiny_of("mip"))
    actions = torch.rand(WHERE) - 0.5
    planted = denoisers.plant(made, lambda x, time: actions if time.item() == 0 else x)  # nothing left to correct
    with torch.inference_mode():
        told = made.sample(torch.zeros(4, made.condition_width), [])
    torch.testing.assert_close(told, actions)
    assert [step.item() for step in planted.steps] == pytest.approx([0.0, 90.0])


def test_the_first_pass_sees_nothing_and_the_second_the_first():
    made = small.untrained(small.tiny_of("mip"))
    seen = []
    denoisers.plant(made, lambda x, time: (seen.append(x), x + 0.25)[1])
    with torch.inference_mode():
        told = made.sample(torch.zeros(4, made.condition_width), [])
    assert seen[0].abs().max() == 0
    torch.testing.assert_close(seen[1], torch.full(WHERE, 0.25))
    torch.testing.assert_close(told, torch.full(WHERE, 0.5))


def test_losses_of_both_passes_have_the_inverse_squares_as_weights():
    made = small.untrained(small.tiny_of("mip"))
    actions, seen = torch.rand(WHERE) - 0.5, []
    denoisers.plant(made, lambda x, time: (seen.append(x), actions + (0.3 if time.item() == 0 else 0.02))[1])
    condition = torch.zeros(4, made.condition_width)
    loss, figures = made.action_loss(made.stages()[0], actions, condition, keyed_generator(0))
    assert float(loss) == pytest.approx((0.3 / 0.9) ** 2 + (0.02 / 0.1) ** 2, rel=1e-4)
    assert 0.05 < float((seen[1] - actions).std()) < 0.15  # the noise of the second pass
    assert float(figures["first"]) == pytest.approx(0.09, rel=1e-4)


def test_nothing_is_drawn_when_acting():
    config = small.tiny_of("mip")
    made = small.untrained(config)
    frames = small.frames(config, 2, 2)
    assert (made.plan(frames, made.begin([0, 1])).actions == made.plan(frames, made.begin([5, 6])).actions).all()


def test_the_time_of_the_second_pass_is_checked():
    with pytest.raises(ConfigError, match=r"1\.0"):
        MIPConfig(second=1.0)


def test_learns_a_toy_set_by_heart():
    share, _ = denoisers.overfit("mip", 80)
    assert share < 0.25
