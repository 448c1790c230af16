"""The causal transformer: what it may see, decoding with a cache."""

from __future__ import annotations

import pytest
import torch

from mgp.errors import ConfigError
from mgp.model.gpt import GPT, Cache, GPTConfig


def model(**changes) -> GPT:
    return GPT(GPTConfig(16, 2, 3), 9, **changes).eval()


@pytest.mark.parametrize("parts", [[9], [4, 5], [3, 1, 1, 4], [1] * 9])
def test_decoding_with_a_cache_equals_all_at_once(parts):
    gpt, x, cache = model(source=True), torch.randn(2, 9, 16), Cache()
    source = torch.randn(2, 4, 16)
    with torch.no_grad():
        steps = [gpt(part, cache, source) for part in x.split(parts, dim=1)]
        torch.testing.assert_close(torch.cat(steps, 1), gpt(x, source=source), atol=1e-5, rtol=1e-5)
    assert cache.length == 9


def test_a_place_sees_nothing_after_it():
    gpt, x = model(), torch.randn(2, 9, 16)
    other = x.clone()
    other[:, 5:] = torch.randn(2, 4, 16)
    with torch.no_grad():
        before, after = gpt(x), gpt(other)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert (before[:, 5:] - after[:, 5:]).abs().amax(-1).min() > 0.01


def test_training_and_acting_attend_alike():
    gpt, x = model(), torch.randn(2, 9, 16)
    with torch.no_grad():
        acting = gpt(x)
    torch.testing.assert_close(gpt(x), acting, atol=1e-5, rtol=1e-5)


def test_wider_heads_and_too_many_places():
    gpt = GPT(GPTConfig(10, 4, 1, head=8), 3)
    assert gpt(torch.randn(2, 3, 10)).shape == (2, 3, 10)
    with pytest.raises(ConfigError, match="4 places, but the transformer was built for 3"):
        gpt(torch.randn(2, 4, 10))
    with pytest.raises(ConfigError, match="no multiple of heads"):
        GPTConfig(10, 4)
