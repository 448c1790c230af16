"""Colours behind the xyz of a cloud: seen by the encoder, untouched by whatever moves points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mgp.model.frames import cloud_to_hand
from mgp.training.augmentation import warp_cloud
from mgp.training.batches import ShortBatches
from mgp.training.build import build_network

import small
from mgp.config import EncoderConfig
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.store import EpisodeStore
from mgp.errors import ConfigError, DataError
from mgp.model.encoders import ConditionEncoder
from mgp.policies.mgp import MGP
from mgp.runs import load_policy
from mgp.training.loop import Trainer


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


def test_a_colour_blind_policy_takes_coloured_frames_by_act_as_by_plan():
    config = small.tiny("short", "cloud")
    policy = small.policy(config)
    frames = small.frames(config, 1, config.encoder.history)
    coloured = {**frames, "cloud": np.concatenate([frames["cloud"], np.ones_like(frames["cloud"])], -1)}
    planned = policy.plan(coloured)[0]
    policy.reset([0])
    still = {key: value[:, -1:].repeat(config.encoder.history, 1) for key, value in coloured.items()}
    expected = policy.plan(still)[0]
    policy.reset([0])
    acted = [policy.act({key: value[0, -1] for key, value in still.items()}) for _ in expected]
    np.testing.assert_array_equal(np.stack(acted), expected)
    policy.reset([0])
    np.testing.assert_array_equal(policy.plan(frames)[0], planned)


@pytest.mark.parametrize("colour", [True, False])
def test_clouds_and_encoder_must_agree_on_colours(colour):
    config, data = coloured(colour=colour)
    if colour:
        data.arrays["cloud"] = data.arrays["cloud"][..., :3]
    width = 3 if colour else 6
    with pytest.raises(ConfigError, match=rf"encoder.colour = {colour}, .*have {width} numbers.*change encoder.colour"):
        build_network(config, data)


@pytest.mark.parametrize("policy", ["short", "long"])
def test_what_the_so101_presets_combine_trains_loads_and_plans(policy, tmp_path):
    config, data = coloured(policy)
    config = small.change(
        config,
        {
            "encoder.frame": "world",
            "encoder.motion": True,
            "encoder.zoom": (),
            "transformer.time": "both",
            "masking.end": False,
            "masking.cut": 0.0,
            "sampling.see_pending": True,
        },
    )
    Trainer(config, data, tmp_path, small.HOLD, quiet=True).train()
    loaded = load_policy(tmp_path)
    assert loaded.config == config
    assert loaded.observation_shapes == {"state": (9,), "cloud": (small.POINTS, 6)}
    loaded.reset([0, 1])
    times = data.history(torch.tensor([5, 30]), config.encoder.history, config.encoder.stride)
    frames = {key: data.arrays[key][times].numpy() for key in ("state", "cloud")}
    for _ in range(3):
        actions = loaded.plan(frames)
        assert actions.shape == (2, config.sampling.execution_horizon, small.ACTION)
        assert np.isfinite(actions).all()


def test_the_encoder_has_a_width_for_colours():
    encoder = ConditionEncoder(EncoderConfig(hidden=(8,), zoom=(4.0,)), 9, 6)
    assert encoder.cloud.points[0].in_features == 9
    assert encoder(torch.zeros(2, 1, 9), torch.zeros(2, 1, 5, 6)).shape == (2, 1, encoder.dim)


def test_colours_that_are_not_there_are_refused(tmp_path):
    episode = {"action": np.zeros((3, 2)), "state": np.zeros((3, 3)), "cloud": np.zeros((3, 4, 3))}
    store = EpisodeStore.write(tmp_path / "plain.zarr", [episode], [0], {})
    with pytest.raises(DataError, match=r"xyz only, encoder\.colour = True: train with --encoder\.no-colour"):
        Demonstrations.from_store(store, colour=True)
