"""Colours behind the xyz of a cloud: seen by the encoder, untouched by whatever moves points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import small
from mgp.config import EncoderConfig
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.store import EpisodeStore
from mgp.errors import DataError
from mgp.model.encoders import ConditionEncoder
from mgp.model.frames import cloud_to_hand
from mgp.policies.mgp import MGP
from mgp.training.augmentation import warp_cloud
from mgp.training.batches import ShortBatches


def coloured(policy: str = "short", colour: bool = True):
    """A configuration and demonstrations whose points have colours."""
    config = small.tiny(policy, "cloud", **{"encoder.colour": colour, "encoder.zoom": (4.0,)})
    data = small.demonstrations("cloud")
    shape = data.arrays["cloud"].shape[:2]
    colours = torch.rand((*shape, 3), generator=keyed_generator(7))
    data.arrays["cloud"] = torch.cat([data.arrays["cloud"], colours], -1)
    return config, data


def test_what_moves_points_leaves_their_colours():
    _, data = coloured()
    cloud, state = data.arrays["cloud"], data.arrays["state"]
    moved = cloud_to_hand(cloud, state)
    torch.testing.assert_close(moved[..., :3], cloud[..., :3] - state[:, None, :3])
    assert torch.equal(moved[..., 3:], cloud[..., 3:])
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]]).expand(len(cloud), 2, 2)
    warped = warp_cloud(cloud, state, turn)
    torch.testing.assert_close(warped[..., :3], warp_cloud(cloud[..., :3], state, turn))
    assert torch.equal(warped[..., 3:], cloud[..., 3:])


def test_noise_on_points_is_none_on_colours():
    config, data = coloured()
    config = small.change(config, {"training.cloud_noise": 0.1, "training.shift_noise": 0.1})
    drawn = ShortBatches(data, config, small.network(config, data)).draw(8, keyed_generator(0)).cloud
    palette = {tuple(colour) for colour in data.arrays["cloud"][..., 3:].flatten(0, 1).tolist()}
    places = {tuple(place) for place in data.arrays["cloud"][..., :3].flatten(0, 1).tolist()}
    assert {tuple(colour) for colour in drawn[..., 3:].flatten(0, 1).tolist()} <= palette
    assert not {tuple(place) for place in drawn[..., :3].flatten(0, 1).tolist()} & places


@pytest.mark.parametrize(("colour", "differs"), [(True, True), (False, False)])
def test_a_policy_sees_colours_if_it_was_trained_to(colour, differs):
    config, data = coloured(colour=colour)
    width = 6 if colour else 3
    data.arrays["cloud"] = data.arrays["cloud"][..., :width]
    network = small.network(config, data)
    policy = MGP(network, {"state": (9,), "cloud": (small.POINTS, width)}, small.HOLD)
    frames = small.frames(config, 1, config.encoder.history)
    frames["cloud"] = np.concatenate([frames["cloud"], np.zeros_like(frames["cloud"])], -1)
    conditions = []
    network.encoder.register_forward_hook(lambda _module, _inputs, out: conditions.append(out.clone()))
    policy.plan(frames)
    frames["cloud"][..., 3:] = 1.0
    policy.reset([0])
    policy.plan(frames)
    assert (not torch.equal(*conditions)) is differs


def test_the_encoder_has_a_width_for_colours():
    encoder = ConditionEncoder(EncoderConfig(hidden=(8,), zoom=(4.0,)), 9, 6)
    assert encoder.cloud.points[0].in_features == 9
    assert encoder(torch.zeros(2, 1, 9), torch.zeros(2, 1, 5, 6)).shape == (2, 1, encoder.dim)


def test_colours_that_are_not_there_are_refused(tmp_path):
    episode = {"action": np.zeros((3, 2)), "state": np.zeros((3, 3)), "cloud": np.zeros((3, 4, 3))}
    store = EpisodeStore.write(tmp_path / "plain.zarr", [episode], [0], {})
    with pytest.raises(DataError, match=r"xyz only: .*encoder\.colour"):
        Demonstrations.from_store(store, colour=True)
