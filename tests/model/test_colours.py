"""Colours behind the xyz of a cloud: seen by the encoder where the data have them, untouched by what moves points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import small
from mgp.config import EncoderConfig
from mgp.data.augmentation import warp_cloud
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.frames import cloud_to_hand
from mgp.data.spec import DataSpec
from mgp.data.windows import Looks
from mgp.errors import ObservationError
from mgp.model.observation import ObservationEncoder
from mgp.policies import policy_class
from mgp.policies.config import RunConfig
from mgp.runs import load_policy
from mgp.training.loop import Trainer


def coloured(kind: str = "short") -> tuple[RunConfig, Demonstrations]:
    """A configuration and demonstrations whose points have colours."""
    config = small.tiny(kind, "cloud", **{"encoder.zoom": (4.0,)})
    data = small.demonstrations("cloud")
    shape = data.arrays["cloud"].shape[:2]
    colours = torch.rand((*shape, 3), generator=keyed_generator(7))
    data.arrays["cloud"] = torch.cat([data.arrays["cloud"], colours], -1)
    return config, data


def test_what_moves_points_leaves_their_colours():
    _, data = coloured()
    cloud, hand = data.arrays["cloud"], data.arrays["state"][:, :3]
    moved = cloud_to_hand(cloud, hand)
    torch.testing.assert_close(moved[..., :3], cloud[..., :3] - hand[:, None])
    assert torch.equal(moved[..., 3:], cloud[..., 3:])
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).expand(len(cloud), 2, 2)
    warped = warp_cloud(cloud, hand, turn)
    torch.testing.assert_close(warped[..., :3], warp_cloud(cloud[..., :3], hand, turn))
    assert torch.equal(warped[..., 3:], cloud[..., 3:])


def test_noise_on_points_is_none_on_colours():
    config, data = coloured()
    policy = small.policy(config.changed({"augmentation.cloud_noise": 0.1}), data)
    batch = policy.source(policy.stages()[-1], data).draw(8, keyed_generator(0))
    drawn = batch.looks.frames["cloud"]
    palette = {tuple(colour) for colour in data.arrays["cloud"][..., 3:].flatten(0, 1).tolist()}
    places = {tuple(place) for place in data.arrays["cloud"][..., :3].flatten(0, 1).tolist()}
    assert {tuple(colour) for colour in drawn[..., 3:].flatten(0, 1).tolist()} <= palette
    assert not {tuple(place) for place in drawn[..., :3].flatten(0, 1).tolist()} & places


@pytest.mark.parametrize("method", ["mgp-short", "bc"])
def test_colours_follow_the_data_and_are_seen(method):
    data = coloured()[1]
    config = small.tiny_of(method, "cloud")
    policy = policy_class(config.policy.name).build(config, data).eval()
    assert policy.observation_shapes["cloud"] == (small.POINTS, 6)
    assert policy.normalizer.widths["cloud"] == 6
    features = []
    policy.encoder.encoders["cloud"].register_forward_hook(lambda _module, _inputs, out: features.append(out.clone()))
    frames = small.frames(config, 1, policy.frames)
    for shade in (0.0, 1.0):
        coloured_cloud = np.concatenate([frames["cloud"], np.full_like(frames["cloud"], shade)], -1)
        policy.plan({**frames, "cloud": coloured_cloud}, policy.begin([0]))
    assert not torch.equal(*features)
    with pytest.raises(ObservationError, match=r"\(16, 3\), the policy was trained on \(16, 6\)"):
        policy.plan(frames, policy.begin([0]))


@pytest.mark.parametrize("kind", ["short", "long"])
def test_what_places_on_a_table_combine_trains_loads_and_plans(kind, tmp_path):
    config, data = coloured(kind)
    config = config.changed(
        {
            "encoder.frame": "motion",
            "encoder.zoom": (),
            "policy.transformer.time": "both",
            "policy.masking.end": False,
            "policy.sampling.see_pending": True,
        }
    )
    Trainer(config, data, tmp_path, quiet=True).train()
    loaded = load_policy(tmp_path)
    assert loaded.config == config
    assert loaded.observation_shapes == {"state": (9,), "cloud": (small.POINTS, 6)}
    memory = loaded.begin([0, 1])
    times = data.history(torch.tensor([5, 30]), config.encoder.history)
    frames = {key: data.arrays[key][times].numpy() for key in ("state", "cloud")}
    for _ in range(3):
        chunk = loaded.plan(frames, memory)
        assert chunk.run == 4
        assert chunk.actions[:, : chunk.run].shape == (2, 4, small.ACTION)
        assert np.isfinite(chunk.actions).all()


def test_the_encoder_has_a_width_for_colours():
    data = coloured()[1]
    encoder = ObservationEncoder(EncoderConfig(hidden=(8,), zoom=(4.0,)), DataSpec.of(data))
    assert encoder.encoders["cloud"].points[0].in_features == 9
    policy = small.policy(*coloured())
    looks = Looks(torch.zeros(2, 1, 9), {"cloud": torch.zeros(2, 5, 6)}, torch.arange(2)[:, None], torch.zeros(2, 3))
    assert encoder(looks, policy.normalizer).shape == (2, 1, encoder.dim)
