from __future__ import annotations

import numpy as np
import pytest
import torch

from mgp.data.normalizer import Normalizer
from mgp.errors import DataError


def test_every_dimension_spans_minus_one_to_one():
    random = np.random.default_rng(0)
    data = (random.uniform(size=(50, 4, 3)) * [1, 100, 1e-3] + [0, -500, 7]).astype(np.float32)
    normalizer = Normalizer.fit({"state": data})
    out = normalizer.normalize("state", torch.from_numpy(data)).reshape(-1, 3)
    torch.testing.assert_close(out.amax(0), torch.ones(3), atol=2e-3, rtol=0)
    torch.testing.assert_close(out.amin(0), -torch.ones(3), atol=2e-3, rtol=0)
    back = normalizer.denormalize("state", normalizer.normalize("state", torch.from_numpy(data)))
    torch.testing.assert_close(back, torch.from_numpy(data), atol=1e-4, rtol=1e-5)


def test_a_constant_dimension_maps_to_zero_and_comes_back():
    data = np.stack([np.linspace(-1, 1, 9), np.full(9, 1e4), np.full(9, -0.3) + 1e-9 * np.arange(9)], 1)
    normalizer = Normalizer.fit({"action": data.astype(np.float32)})
    out = normalizer.normalize("action", torch.from_numpy(data).float())
    assert out[:, 1:].abs().max() < 1e-3
    assert normalizer.normalize("action", torch.tensor([0.0, 1e4 + 1, -0.3])).isfinite().all()
    back = normalizer.denormalize("action", torch.zeros(3))
    torch.testing.assert_close(back, torch.tensor([0.0, 1e4, -0.3]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_by_name(bad):
    data = np.zeros((5, 2), np.float32)
    data[3, 1] = bad
    with pytest.raises(DataError, match="'cloud' contains NaN or Inf"):
        Normalizer.fit({"state": np.zeros((5, 2)), "cloud": data})


def test_limits_are_saved_with_the_weights():
    fitted = Normalizer.fit({"state": np.random.default_rng(1).normal(size=(20, 2)), "action": np.ones((3, 4))})
    fresh = Normalizer({"state": 2, "action": 4})
    fresh.load_state_dict(fitted.state_dict(), strict=True)
    value = torch.randn(5, 2)
    assert torch.equal(fresh.normalize("state", value), fitted.normalize("state", value))
    assert not list(fitted.parameters())
