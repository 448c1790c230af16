from __future__ import annotations

import pytest
import torch

from mgp.errors import ConfigError
from mgp.model.unet import UNet, UNetConfig

SMALL = UNetConfig((8, 16, 24), groups=4, step_dim=8)


@pytest.mark.parametrize("length", [1, 3, 4, 7, 16, 25])
def test_any_length_is_padded_inside_and_comes_out_as_long(length):
    made = UNet(SMALL, 3, 5)
    out = made(torch.randn(2, length, 3), torch.tensor([1, 7]), torch.randn(2, 5))
    assert out.shape == (2, length, 3)
    assert out.isfinite().all()


def test_padding_goes_on_with_the_last_action():
    made = UNet(SMALL, 3, 5).eval()
    x, step, condition = torch.randn(2, 6, 3), torch.tensor([1, 7]), torch.randn(2, 5)
    longer = torch.cat([x, x[:, -1:].expand(-1, 2, -1)], dim=1)
    torch.testing.assert_close(made(x, step, condition), made(longer, step, condition)[:, :6])


def test_step_and_condition_matter_and_one_step_serves_all_rows():
    made = UNet(SMALL, 3, 5).eval()
    x, condition = torch.randn(2, 8, 3), torch.randn(2, 5)
    out = made(x, torch.tensor([4, 4]), condition)
    torch.testing.assert_close(made(x, torch.tensor(4), condition), out)
    assert not torch.allclose(made(x, torch.tensor([5, 5]), condition), out)
    assert not torch.allclose(made(x, torch.tensor([4, 4]), condition + 1), out)


def test_the_second_time_starts_without_influence_and_can_be_learned():
    made = UNet(SMALL, 3, 5, interval=True)
    x, step, condition = torch.randn(2, 8, 3), torch.tensor([1.0, 2.0]), torch.randn(2, 5)
    out = made(x, step, condition, torch.tensor([0.0, 0.5]))
    torch.testing.assert_close(made(x, step, condition, torch.tensor([3.0, 9.0])), out)
    out.square().mean().backward()
    assert made.interval.mlp[-1].weight.grad.abs().max() > 0


def test_fewer_blocks_and_dropout():
    count = lambda config: sum(weight.numel() for weight in UNet(config, 3, 5).parameters())  # noqa: E731
    simple = UNetConfig((8, 16, 24), blocks=1, groups=4, step_dim=8)
    assert count(simple) < 0.7 * count(SMALL)
    noisy = UNet(UNetConfig((8, 16), groups=4, step_dim=8, dropout=0.5), 3, 5)
    arguments = torch.randn(2, 8, 3), torch.tensor([1, 7]), torch.randn(2, 5)
    assert not torch.equal(noisy(*arguments), noisy(*arguments))
    noisy.eval()
    assert torch.equal(noisy(*arguments), noisy(*arguments))


@pytest.mark.parametrize(
    "wrong", [{"widths": (12, 16)}, {"widths": ()}, {"kernel": 4}, {"step_dim": 7}, {"dropout": 1.5}, {"blocks": 0}]
)
def test_wrong_sizes_are_refused(wrong):
    with pytest.raises(ConfigError):
        UNetConfig(**wrong)
