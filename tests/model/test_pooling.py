"""The shortcut through the points that give a maximum has the output and the gradients of the plain way."""

from __future__ import annotations

import pytest
import torch

from mgp.model.encoders.cloud import PointNet


@pytest.mark.parametrize("zoom", [(), (4.0, 16.0)])
def test_gradients_of_the_chosen_points_are_those_of_all(zoom):
    torch.manual_seed(0)
    net = PointNet((8, 16), 5, zoom)
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
        assert a.abs().max() > 0
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_without_gradients_the_plain_way_is_taken(monkeypatch):
    net = PointNet((8, 16), 5)
    monkeypatch.setattr(net, "_pooled", lambda inputs: pytest.fail("two passes where one does"))
    with torch.no_grad():
        assert net(torch.randn(2, 40, 3)).shape == (2, 5)
