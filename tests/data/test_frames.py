"""Frames of reference: what a frame of a window may tell."""

from __future__ import annotations

import pytest
import torch

from mgp.config import EncoderConfig
from mgp.data.windows import Looks
from mgp.model.observation import relative


@pytest.mark.parametrize("frame", ["hand", "motion"])
def test_a_causal_frame_tells_nothing_of_later_ones(frame):
    state = torch.randn(2, 5, 9)
    later = state.clone()
    later[:, 3:] += 1.0

    def seen(values, causal):
        config = EncoderConfig(history=5, frame=frame, causal=causal)
        return relative(config, Looks(values, {}, torch.zeros(2, 5), None), 2)[0]

    assert torch.equal(seen(state, True)[:, :3], seen(later, True)[:, :3])
    assert not torch.equal(seen(state, False)[:, :3], seen(later, False)[:, :3])
    moved = seen(state, True)[..., :3] if frame == "hand" else seen(state, True)[..., 9:12]
    torch.testing.assert_close(moved[:, 1:], (state[:, 1:] - state[:, :-1])[..., :3])
    assert not moved[:, 0].any(), "the oldest has none before it"
