from __future__ import annotations

import math

import pytest
import torch

import small
from mgp.config import AugmentationConfig
from mgp.data.augmentation import draw_warps, warp_actions, warp_cloud, warp_state
from mgp.data.demonstrations import keyed_generator
from mgp.data.frames import cloud_to_hand, state_to_hand


def test_rotations_and_stretches_keep_to_their_limits():
    turned = draw_warps(500, AugmentationConfig(rotation=30.0), keyed_generator(0))
    torch.testing.assert_close(turned @ turned.transpose(1, 2), torch.eye(2).expand(500, 2, 2))
    angle = torch.atan2(turned[:, 1, 0], turned[:, 0, 0]).rad2deg()
    assert 28 < angle.abs().max() <= 30.001
    assert abs(angle.mean()) < 3
    stretched = torch.linalg.svdvals(
        draw_warps(500, AugmentationConfig(rotation=30.0, stretch=0.2), keyed_generator(1))
    )
    assert stretched.min() >= 0.8 - 1e-5
    assert stretched.max() <= 1.2 + 1e-5
    assert stretched.std() > 0.05


def test_without_augmentation_nothing_is_drawn():
    generator = keyed_generator(0)
    before = generator.get_state()
    assert draw_warps(5, AugmentationConfig(rotation=0.0, stretch=0.0), generator) is None
    assert torch.equal(generator.get_state(), before)


def test_a_quarter_turn_by_numbers():
    turn = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])
    cloud, state = torch.tensor([[[2.0, 1.0, 5.0]]]), torch.tensor([[1.0, 1.0, 4.0, 1.5, 1.0, 4.0]])
    torch.testing.assert_close(warp_cloud(cloud, state[:, :3], turn), torch.tensor([[[1.0, 2.0, 5.0]]]))
    torch.testing.assert_close(
        warp_actions(torch.tensor([[[1.0, 0.0, 3.0, -1.0]]]), turn)[0, 0].tolist(), [0.0, 1.0, 3.0, -1.0]
    )
    history = torch.stack([state[0] - torch.tensor([1.0, 0, 0, 1.0, 0, 0]), state[0]])[None]
    expected = torch.tensor([[[1.0, 0.0, 4.0, 1.5, 0.0, 4.0], [1.0, 1.0, 4.0, 1.5, 1.0, 4.0]]])
    torch.testing.assert_close(warp_state(history, turn, 2), expected)
    opening = torch.cat([history, torch.tensor([[[0.5, 7.0]]]).expand(1, 2, 2)], -1)  # no places: they do not turn
    torch.testing.assert_close(warp_state(opening, turn, 2), torch.cat([expected, opening[..., 6:]], -1))


def test_warping_is_a_map_of_what_lies_round_the_hand():
    random = keyed_generator(2)
    warp = draw_warps(4, AugmentationConfig(rotation=40.0, stretch=0.3), random)
    state, cloud = torch.randn(4, 3, 9, generator=random), torch.randn(4, 10, 3, generator=random)
    newest = state[:, -1, :3]
    seen = cloud_to_hand(warp_cloud(cloud, newest, warp), newest)
    plain = cloud_to_hand(cloud, newest)
    torch.testing.assert_close(seen[..., :2], torch.einsum("gij,gpj->gpi", warp, plain[..., :2]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(seen[..., 2], plain[..., 2])
    own, before = state_to_hand(warp_state(state, warp, 3), 3), state_to_hand(state, 3)
    torch.testing.assert_close(own[..., :2], torch.einsum("gij,ghj->ghi", warp, before[..., :2]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(own[..., 2:], before[..., 2:], atol=1e-5, rtol=1e-5)  # heights and the gripper's shape


@pytest.mark.parametrize("kind", ["short", "long"])
def test_cloud_state_and_actions_of_a_sample_are_warped_alike(kind):
    changes = {"rotation": 30.0, "stretch": 0.2, "cloud_noise": 0.0, "points": 0}
    config = small.tiny(kind, "cloud", **{f"augmentation.{name}": value for name, value in changes.items()})
    config = config.changed({"policy.tokenizer.window": 16})
    data = small.demonstrations("cloud")
    data.arrays["state"][:, 0] = torch.arange(len(data.arrays["state"]))  # the hand's x tells the time
    policy = small.policy(config)
    batch = policy.source(policy.stages()[-1], data).draw(40, keyed_generator(0))
    looks = batch.looks
    time = looks.state[:, -1, 0].round().long()
    episode = data.episode_of(time)
    raw = data.action_windows(time - policy.past, policy.window, episode)
    warp = torch.linalg.lstsq(raw[..., :2], batch.actions[..., :2]).solution.transpose(1, 2)  # (B, 2, 2)
    torch.testing.assert_close(warp_actions(raw, warp), batch.actions, atol=1e-4, rtol=1e-4)
    assert len({round(float(row[0, 0]), 4) for row in warp}) > 10
    assert math.isclose(float(torch.linalg.det(warp).mean()), 1.0, abs_tol=0.2)
    clear = torch.linalg.svdvals(raw[..., :2])[:, 1] > 0.05  # actions that repeat at an episode's end show no map
    assert clear.sum() > 20
    warp, time, state, which = warp[clear], time[clear], looks.state[clear], looks.which[clear]
    times = data.history(time, 2)
    torch.testing.assert_close(state, warp_state(data.arrays["state"][times], warp, 3), atol=1e-3, rtol=1e-4)
    for column in range(2):
        frame, now = which[:, column], times[:, column]
        assert torch.equal(looks.hand[frame], data.arrays["state"][now][:, :3])
        expected = warp_cloud(data.arrays["cloud"][now], data.arrays["state"][now][:, :3], warp)
        torch.testing.assert_close(looks.frames["cloud"][frame], expected, atol=2e-3, rtol=1e-3)
    if kind == "short":
        assert torch.equal(batch.extra["target"], policy.tokenize(batch.actions))


def test_small_warps_come_most_often_and_none_is_as_demonstrated():
    warps = draw_warps(4000, AugmentationConfig(rotation=20.0, stretch=0.2), keyed_generator(3))
    angle = torch.rad2deg(torch.atan2(warps[:, 1, 0], warps[:, 0, 0])).abs()
    stretch = (warps.norm(dim=1) - 1).abs()  # (G, 2) of both axes
    for drawn, most in ((angle, 20.0), (stretch, 0.2)):
        assert 0.9 * most < drawn.max() <= most * 1.001
        assert float(drawn.median()) == pytest.approx(most / 4, rel=0.1)
    assert ((warps - torch.eye(2)).abs().amax((1, 2)) > 1e-6).all()
    assert draw_warps(5, AugmentationConfig(), keyed_generator(0)) is None
