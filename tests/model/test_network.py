"""The network inside an MGP: what is trained, what is frozen, and how its condition comes about."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import small
from mgp.data.demonstrations import keyed_generator
from mgp.data.frames import cloud_to_hand, state_to_hand, with_motion
from mgp.data.windows import Looks
from mgp.model.observation import relative
from mgp.policies.mgp import MGP

CASES = [(policy, observation) for policy in ("short", "long") for observation in ("state", "cloud")]


@pytest.mark.parametrize(("kind", "observation"), CASES)
@pytest.mark.parametrize("extra", [0.0, 1.0])
def test_every_trainable_parameter_gets_a_gradient_and_no_frozen_one_does(kind, observation, extra):
    changes = {"policy.masking.soft_labels": extra, "training.auxiliary": extra}
    policy = small.policy(small.tiny(kind, observation, **changes))
    policy.train()
    stage = policy.stages()[-1]
    trained = policy.begin_stage(stage)
    batch = policy.source(stage, small.demonstrations(observation)).draw(32, keyed_generator(0))
    loss, figures = policy.loss(stage, batch, keyed_generator(1))
    loss.backward()
    assert ("regression" in figures) == bool(extra)
    for name, parameter in policy.named_parameters():
        if name.startswith("tokenizer."):
            assert name not in trained
            assert parameter.grad is None, name
        else:
            assert name in trained
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 0, name
    assert any(name.startswith("encoder.") for name in trained), "the observation encoder is trained too"


def test_the_tokenizer_does_not_change_in_stage_2():
    policy = small.policy(small.tiny("long"))
    stage = policy.stages()[-1]
    optimizer = torch.optim.AdamW(policy.begin_stage(stage).values(), lr=1e-2, weight_decay=0.1)
    source = policy.source(stage, small.demonstrations())
    before = policy.frozen()
    assert before == {"tokenizer": policy.tokenizer.fingerprint()}
    for step in range(3):
        policy.train()  # must not thaw it
        optimizer.zero_grad()
        generator = keyed_generator(step)
        policy.loss(stage, source.draw(8, generator), generator)[0].backward()
        optimizer.step()
    assert policy.frozen() == before


def test_the_transformer_embeds_the_tokenizers_own_codes():
    policy = small.policy(small.tiny())
    assert torch.equal(policy.transformer.code_vectors, policy.tokenizer.codebook.codes)
    policy.tokenizer.codebook.codes.add_(1.0)
    assert not torch.equal(policy.transformer.code_vectors, policy.tokenizer.codebook.codes), "a copy, not an alias"


def condition(policy: MGP, state: torch.Tensor, cloud: torch.Tensor) -> torch.Tensor:
    """Of frames (B, H, ...), each encoded for itself."""
    which = torch.arange(state.shape[0] * state.shape[1]).view(state.shape[:2])
    return policy.condition(Looks(state, {"cloud": cloud.flatten(0, 1)}, which, state[..., :3].flatten(0, 1)))


@pytest.mark.parametrize("history", [1, 3])
def test_frames_encoded_once_equal_frames_encoded_for_each_window(history):
    config = small.tiny("short", "cloud", **{"encoder.history": history})
    policy, data = small.policy(config), small.demonstrations("cloud")
    times = data.history(torch.tensor([0, 1, 2, 30, 31, 60]), history)
    state, (distinct, which) = data.arrays["state"][times], times.unique(return_inverse=True)
    hand = data.arrays["state"][distinct][:, :3]
    once = policy.condition(Looks(state, {"cloud": data.arrays["cloud"][distinct]}, which, hand))
    assert once.shape == (6, history, policy.encoder.dim)
    torch.testing.assert_close(once, condition(policy, state, data.arrays["cloud"][times]))


def test_in_the_hands_frame_a_shifted_scene_looks_the_same():
    config = small.tiny("short", "cloud")
    policy, view = small.policy(config), small.frames(config, 4, config.encoder.history)
    state, cloud = torch.from_numpy(view["state"]), torch.from_numpy(view["cloud"])
    shift = torch.tensor([0.4, -0.7, 0.0])
    moved_state = state + shift.repeat(state.shape[-1] // 3)
    here = condition(policy, state, cloud)
    torch.testing.assert_close(condition(policy, moved_state, cloud + shift), here, atol=1e-4, rtol=1e-4)
    raised = state + torch.tensor([0.0, 0.0, 0.3]).repeat(state.shape[-1] // 3)
    assert not torch.allclose(condition(policy, raised, cloud), here, atol=1e-3), "height is kept"
    moved_only = condition(policy, state, cloud + shift)
    assert not torch.allclose(moved_only, here, atol=1e-3), "where things are relative to the hand matters"
    world = small.policy(small.tiny("short", "cloud", **{"encoder.frame": "world"}))
    assert not torch.allclose(condition(world, moved_state, cloud + shift), condition(world, state, cloud), atol=1e-3)


def test_the_hands_frame_by_numbers():
    state = torch.tensor(
        [[[1.0, 2.0, 3.0, 1.5, 2.0, 3.0, 0.5, 2.0, 3.0], [1.1, 2.0, 3.2, 1.6, 2.0, 3.2, 0.6, 2.0, 3.2]]]
    )
    expected = [[-0.1, 0, -0.2, 3.0, 0.5, 0, 0, -0.5, 0, 0], [0, 0, 0, 3.2, 0.5, 0, 0, -0.5, 0, 0]]
    torch.testing.assert_close(state_to_hand(state, 3)[0], torch.tensor(expected), atol=1e-6, rtol=0)
    hand_alone = [[*row[:4], *there] for row, there in zip(expected, state[0, :, 3:].tolist(), strict=True)]
    torch.testing.assert_close(state_to_hand(state, 1)[0], torch.tensor(hand_alone), atol=1e-6, rtol=0)
    cloud = torch.tensor([[[1.0, 2.0, 3.5]], [[1.0, 2.0, 3.5]]])[None]
    at_hand = cloud_to_hand(cloud, state[..., :3])
    torch.testing.assert_close(at_hand[0, :, 0], torch.tensor([[0.0, 0, 0.5], [-0.1, 0, 0.3]]), atol=1e-6, rtol=0)


def test_building_a_policy_depends_on_the_seed_alone():
    data, config = small.demonstrations(), small.tiny()
    state = torch.random.get_rng_state()
    one = MGP.build(config, data).state_dict()
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator is left alone"
    torch.rand(5)
    other = MGP.build(config, data).state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    third = MGP.build(config.changed({"seed": 1}), data).state_dict()
    assert not torch.equal(one["transformer.head.weight"], third["transformer.head.weight"])


def test_actions_stay_inside_the_demonstrated_limits():
    policy, data = small.policy(small.tiny()), small.demonstrations()
    with torch.no_grad():
        for parameter in policy.tokenizer.decoder.parameters():
            parameter.mul_(20)
    actions = policy.actions(torch.randint(16, (50, 2), generator=keyed_generator(0)))
    assert actions.shape == (50, 8, small.ACTION)
    shown = data.arrays["action"]
    assert (actions <= shown.amax(0) + 1e-5).all()
    assert (actions >= shown.amin(0) - 1e-5).all()
    assert np.isclose(actions.detach().numpy(), shown.amax(0)).any(), "and reach them"


def test_within_reach_things_are_relative_to_the_hand_and_both_are_in_the_world():
    policy = small.policy(small.tiny("short", "cloud", **{"encoder.frame": "reach"}))
    view = small.frames(policy.config, 1, policy.frames)
    state, cloud = torch.from_numpy(view["state"]), torch.from_numpy(view["cloud"])
    looks = Looks(state, {"cloud": cloud.flatten(0, 1)}, torch.arange(2)[None], state[0, :, :3])
    seen, clouds = relative(policy.config.encoder, looks, policy.encoder.places)
    torch.testing.assert_close(seen, with_motion(state))
    torch.testing.assert_close(clouds["cloud"][..., :3], cloud_to_hand(cloud, state[..., :3])[0])
    torch.testing.assert_close(clouds["cloud"][..., 3:], cloud[0], msg="and beside that where they are on the table")
    low, high = (policy.normalizer.denormalize("cloud", torch.tensor(end)) for end in ([-1.0] * 6, [1.0] * 6))
    torch.testing.assert_close(low[:3], -high[:3])  # zero is the hand: that is what encoder.zoom resolves finely


def test_motion_is_normalised_by_its_own_limits():
    config = small.tiny("short", "cloud", **{"encoder.frame": "motion"})
    data = small.demonstrations("cloud")
    data.arrays["state"] = 100 + data.arrays["state"].cumsum(0) / 100  # small steps far away
    policy = small.policy(config, data)
    times = data.history(torch.arange(len(data.arrays["state"])), 2)
    state = data.arrays["state"][times]
    seen = policy.normalizer.normalize("state", with_motion(state))
    assert seen.shape[-1] == 18
    assert (seen[:, -1, 9:] == seen[0, -1, 9:]).all(), "the newest frame does not differ from itself"
    assert seen[:, 0, 9:].amin() == pytest.approx(-1, abs=1e-3)
    assert seen[:, 0, 9:].amax() == pytest.approx(1, abs=1e-3)
