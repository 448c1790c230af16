from __future__ import annotations

import pytest
import torch
from mgp.model.frames import cloud_to_hand, state_to_hand, with_motion
from mgp.training.build import build_network
from mgp.training.stages import PolicyStage

import small
from mgp.data.demonstrations import keyed_generator

CASES = [(policy, observation) for policy in ("short", "long") for observation in ("state", "cloud")]


@pytest.mark.parametrize(("policy", "observation"), CASES)
@pytest.mark.parametrize("head", ["linear", "codebook"])
@pytest.mark.parametrize("extra", [0.0, 1.0])
def test_every_trainable_parameter_gets_a_gradient_and_no_frozen_one_does(policy, observation, head, extra):
    changes = {"transformer.head": head, "masking.soft_labels": extra, "training.auxiliary": extra}
    config = small.tiny(policy, observation, **changes)
    network = small.network(config)
    network.train()
    stage = PolicyStage(network, small.demonstrations(observation), config, torch.device("cpu"))
    loss, _ = stage.loss(32, keyed_generator(0))
    loss.backward()
    trained = stage.parameters()
    for name, parameter in network.named_parameters():
        if name.startswith("tokenizer."):
            assert name not in trained
            assert parameter.grad is None, name
        else:
            assert name in trained
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 0, name
    assert any(name.startswith("encoder.") for name in trained), "the observation encoder is trained too"


def test_the_tokenizer_does_not_change_in_stage_2():
    config = small.tiny("long")
    network = small.network(config)
    stage = PolicyStage(network, small.demonstrations(), config, torch.device("cpu"))
    optimizer = torch.optim.AdamW(stage.parameters().values(), lr=1e-2, weight_decay=0.1)
    before = network.tokenizer.fingerprint()
    for step in range(3):
        network.train()  # must not thaw it
        optimizer.zero_grad()
        stage.loss(8, keyed_generator(step))[0].backward()
        optimizer.step()
    assert network.tokenizer.fingerprint() == before


def test_the_transformer_embeds_the_tokenizers_own_codes():
    network = small.network(small.tiny())
    assert torch.equal(network.transformer.code_vectors, network.tokenizer.codebook.codes)
    network.tokenizer.codebook.codes.add_(1.0)
    assert not torch.equal(network.transformer.code_vectors, network.tokenizer.codebook.codes), "a copy, not an alias"


@pytest.mark.parametrize("history", [1, 3])
def test_frames_encoded_once_equal_frames_encoded_for_each_window(history):
    config = small.tiny("short", "cloud", **{"encoder.history": history})
    network, data = small.network(config), small.demonstrations("cloud")
    times = data.history(torch.tensor([0, 1, 2, 30, 31, 60]), history)
    state, distinct = data.arrays["state"][times], times.unique(return_inverse=True)
    cloud, cloud_state = data.arrays["cloud"][distinct[0]], data.arrays["state"][distinct[0]]
    once = network.condition(state, cloud, cloud_state, distinct[1])
    each = network.condition(state, data.arrays["cloud"][times], state)
    assert once.shape == (6, history, network.encoder.dim)
    torch.testing.assert_close(once, each)


def test_in_the_hands_frame_a_shifted_scene_looks_the_same():
    config = small.tiny("short", "cloud")
    network, view = small.network(config), small.frames(config, 4, config.encoder.history)
    state, cloud = torch.from_numpy(view["state"]), torch.from_numpy(view["cloud"])
    shift = torch.tensor([0.4, -0.7, 0.0])
    moved_state = state + shift.repeat(state.shape[-1] // 3)
    here = network.condition(state, cloud, state)
    torch.testing.assert_close(network.condition(moved_state, cloud + shift, moved_state), here, atol=1e-4, rtol=1e-4)
    raised = state + torch.tensor([0.0, 0.0, 0.3]).repeat(state.shape[-1] // 3)
    assert not torch.allclose(network.condition(raised, cloud, raised), here, atol=1e-3), "height is kept"
    moved_only = network.condition(state, cloud + shift, state)
    assert not torch.allclose(moved_only, here, atol=1e-3), "where things are relative to the hand matters"
    world = small.network(small.tiny("short", "cloud", **{"encoder.frame": "world"}))
    assert not torch.allclose(
        world.condition(moved_state, cloud + shift, moved_state), world.condition(state, cloud, state), atol=1e-3
    )


def test_the_hands_frame_by_numbers():
    state = torch.tensor(
        [[[1.0, 2.0, 3.0, 1.5, 2.0, 3.0, 0.5, 2.0, 3.0], [1.1, 2.0, 3.2, 1.6, 2.0, 3.2, 0.6, 2.0, 3.2]]]
    )
    expected = [[-0.1, 0, -0.2, 3.0, 0.5, 0, 0, -0.5, 0, 0], [0, 0, 0, 3.2, 0.5, 0, 0, -0.5, 0, 0]]
    torch.testing.assert_close(state_to_hand(state)[0], torch.tensor(expected), atol=1e-6, rtol=0)
    cloud = torch.tensor([[[1.0, 2.0, 3.5]], [[1.0, 2.0, 3.5]]])[None]
    relative = cloud_to_hand(cloud, state)
    torch.testing.assert_close(relative[0, :, 0], torch.tensor([[0.0, 0, 0.5], [-0.1, 0, 0.3]]), atol=1e-6, rtol=0)


def test_building_a_network_depends_on_the_seed_alone():
    data, config = small.demonstrations(), small.tiny()
    state = torch.random.get_rng_state()
    one = build_network(config, data).state_dict()
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator is left alone"
    torch.rand(5)
    other = build_network(config, data).state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    third = build_network(small.change(config, {"seed": 1}), data).state_dict()
    assert not torch.equal(one["transformer.head.weight"], third["transformer.head.weight"])


def test_actions_stay_inside_the_demonstrated_limits():
    config = small.tiny()
    network, data = small.network(config), small.demonstrations()
    with torch.no_grad():
        for parameter in network.tokenizer.decoder.parameters():
            parameter.mul_(20)
    actions = network.actions(torch.randint(16, (50, 2), generator=keyed_generator(0)))
    assert actions.shape == (50, 8, small.ACTION)
    shown = data.arrays["action"]
    assert (actions <= shown.amax(0) + 1e-5).all()
    assert (actions >= shown.amin(0) - 1e-5).all()


def test_motion_is_normalised_by_its_own_limits():
    config = small.tiny("short", "cloud", **{"encoder.frame": "world", "encoder.motion": True})
    data = small.demonstrations("cloud")
    data.arrays["state"] = 100 + data.arrays["state"].cumsum(0) / 100  # small steps far away
    network = small.network(config, data)
    times = data.history(torch.arange(len(data.arrays["state"])), 2)
    state = data.arrays["state"][times]
    seen = network.normalizer.normalize("state", with_motion(state))
    assert seen.shape[-1] == 18
    assert (seen[:, -1, 9:] == seen[0, -1, 9:]).all(), "the newest frame does not differ from itself"
    assert seen[:, 0, 9:].amin() == pytest.approx(-1, abs=1e-3)
    assert seen[:, 0, 9:].amax() == pytest.approx(1, abs=1e-3)
