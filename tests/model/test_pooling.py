"""The shortcut through the points that give a maximum has the output and the gradients of the plain way."""

from __future__ import annotations

import pytest
import torch

from mgp.model.encoders.cloud import PointNet
from mgp.model.encoders.highest import first_highest
from mgp.model.rounding import rounded


@pytest.mark.parametrize("zoom", [(), (4.0, 16.0)])
def test_gradients_of_the_chosen_points_are_those_of_all(zoom):
    torch.manual_seed(0)
    net = PointNet((8, 16), 5, zoom)
    with torch.no_grad():  # as training leaves them: a scale may be negative, a shift may lie far below 0
        net.points[-2].weight.copy_(torch.linspace(-1.5, 2, 16))
        net.points[-2].bias.copy_(torch.linspace(-4, 1, 16))
    cloud = torch.randn(7, 40, 3)
    cloud[:, 20:] = cloud[:, :20]  # a cloud with too few points repeats them: every maximum has a twin
    cloud.requires_grad_()
    target = torch.randn(7, 5)

    def gradients(out: torch.Tensor) -> list[torch.Tensor]:
        return torch.autograd.grad((out - target).square().sum(), list(net.parameters()))

    inputs = torch.cat([cloud, *(torch.tanh(factor * cloud) for factor in zoom)], dim=-1)
    plain = net.project(net.points(inputs).amax(dim=-2))
    short = net(cloud)
    torch.testing.assert_close(plain, short)
    for a, b in zip(gradients(plain), gradients(short), strict=True):
        assert (a - b).norm() < 3e-6 * a.norm()  # single elements are sums that cancel


def test_without_gradients_the_plain_way_is_taken(monkeypatch):
    net = PointNet((8, 16), 5)
    monkeypatch.setattr(net, "_pooled", lambda inputs: pytest.fail("two passes where one does"))
    with torch.no_grad():
        assert net(torch.randn(2, 40, 3)).shape == (2, 5)


def test_in_bfloat16_gradients_are_about_as_near_to_the_exact_ones_as_the_plain_ways():
    """A quarter farther, on the mean over seeds: two numbers more are rounded on the way."""
    errors = torch.tensor([_errors_in_bfloat16(seed) for seed in range(6)]).mean(0)
    assert errors[1] < 1.4 * errors[0] < 0.07


def _errors_in_bfloat16(seed: int) -> tuple[float, float]:
    """Of the plain way and of the shortcut, as shares of the exact gradient."""
    torch.manual_seed(seed)
    net, cloud, target = PointNet((32, 64, 128), 16), torch.randn(24, 64, 3), torch.randn(24, 16)

    def gradient(half: bool, plain: bool) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            out = net.project(net.points(cloud).amax(dim=-2)) if plain else net(cloud)
            parts = torch.autograd.grad((out.float() - target).square().mean(), list(net.parameters()))
        return torch.cat([part.flatten() for part in parts])

    exact = gradient(False, True)
    plain, short = ((gradient(True, way) - exact).norm() / exact.norm() for way in (True, False))
    return float(plain), float(short)


@pytest.mark.parametrize("points", [1, 2, 3, 7, 40, 256])
def test_a_knock_out_finds_a_highest_point(points):
    x = torch.randn(3, points, 5, generator=torch.Generator().manual_seed(points))
    torch.testing.assert_close(first_highest(x), x.max(dim=1).indices)
    x = x.round()  # of several highest any will do
    assert torch.equal(x.gather(1, first_highest(x)[:, None]).squeeze(1), x.amax(1))


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 8), (8, 8), (9, 16)])
def test_numbers_of_rows_come_again(count, expected):
    rows = rounded(torch.arange(3, 3 + count), 8)
    assert rows.tolist() == [*range(3, 3 + count), *[0] * (expected - count)]
