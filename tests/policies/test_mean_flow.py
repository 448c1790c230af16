from __future__ import annotations

import denoisers
import torch

import small
from mgp.data.demonstrations import keyed_generator
from mgp.policies.mean_flow import average_velocity, dispersive_loss

TIMES = torch.tensor([0.9, 0.5, 0.3]), torch.tensor([0.1, 0.5, 0.0])
WIDE = (3, 1, 1)


def exact(x: torch.Tensor, t: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    """Average velocity of dx/dt = x from r to t, along the path that reaches x at t."""
    apart = (t - r).view(WIDE)
    mean = torch.where(apart > 1e-6, (1 - torch.exp(-apart)) / apart.clamp_min(1e-6), torch.ones_like(apart))
    return x * mean


def test_the_target_is_the_velocity_itself_where_both_times_are_one():
    x, v, t = torch.randn(3, 8, 2), torch.randn(3, 8, 2), TIMES[0]
    _, target = average_velocity(lambda x, t, r: torch.sin(x) * t.view(WIDE) + r.view(WIDE), x, t, t, v)
    torch.testing.assert_close(target, v)


def test_the_target_of_a_linear_field_is_its_average():
    x, (t, r) = torch.randn(3, 8, 2, dtype=torch.float64), (time.double() for time in TIMES)
    told, target = average_velocity(exact, x, t, r, x)  # dx/dt = x
    torch.testing.assert_close(told, target)
    start = x * torch.exp(-(t - r).view(WIDE))
    torch.testing.assert_close(x - (t - r).view(WIDE) * told, start)  # one step of any length is exact


def test_one_step_from_noise_and_no_gradient_through_the_target():
    made = small.untrained(small.tiny_of("mp1"))
    generators = lambda: [keyed_generator(row) for row in range(4)]  # noqa: E731
    with torch.inference_mode():
        noise, condition = made.noise(generators()), torch.randn(4, made.condition_width)
        told = made.unet(noise, torch.ones(4), condition, torch.ones(4))
        torch.testing.assert_close(made.sample(condition, generators()), noise - told)
    field = lambda x, t, r: made.average(x, t, r, condition)  # noqa: E731
    condition = torch.randn(3, made.condition_width)
    x = torch.randn(3, 8, small.ACTION)
    told, target = average_velocity(field, x, *TIMES, torch.randn_like(x))
    assert told.requires_grad
    assert not target.requires_grad
    torch.testing.assert_close(told, field(x, *TIMES))


def test_times_are_ordered_and_half_of_them_equal():
    made = small.untrained(small.tiny_of("mp1"))
    t, r = made.times(torch.zeros(4000, 1, 1), keyed_generator(0))
    assert (t >= r).all()
    assert 0.45 < (t == r).float().mean() < 0.55
    assert t.min() > 0
    assert t.max() < 1


def test_dispersive_loss_falls_as_features_spread():
    close, far = torch.zeros(6, 4), torch.eye(6, 4)
    close[0] = 1.0
    assert dispersive_loss(far) < dispersive_loss(close) < 0
    assert dispersive_loss(torch.zeros(3, 4)) == 0


def test_guidance_changes_the_target_only_by_what_the_network_tells():
    plain, guided = (small.untrained(small.tiny_of("mp1", **{"policy.guidance": w})) for w in (1.0, 2.0))
    arguments = torch.rand(8, 8, small.ACTION), torch.randn(8, plain.condition_width)
    one, two = (made.action_loss(made.stages()[0], *arguments, keyed_generator(1))[0] for made in (plain, guided))
    assert one.isfinite()
    assert one != two


def test_learns_a_toy_set_by_heart():
    share, _ = denoisers.overfit("mp1", 80)
    assert share < 0.4
