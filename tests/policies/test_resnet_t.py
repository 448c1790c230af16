"""ResNet-T: the mixture, low noise when acting, and that it learns."""

from __future__ import annotations

import math

import torch
from learning import error, trained

import small
from mgp.data.demonstrations import keyed_generator
from mgp.policies.resnet_t import Mixture, log_likelihood


def test_the_likelihood_of_a_planted_case():
    logits = torch.log(torch.tensor([[0.25, 0.75]]))
    means = torch.tensor([[[0.0, 0.0], [1.0, 1.0]]])
    deviations = torch.tensor([[[1.0, 1.0], [0.5, 2.0]]])
    action = torch.tensor([[1.0, 0.0]])
    one = math.exp(-0.5) / (2 * math.pi)
    two = math.exp(-0.5 * (1 / 2) ** 2) / (2 * math.pi * 0.5 * 2.0)
    expected = torch.tensor([math.log(0.25 * one + 0.75 * two)])
    torch.testing.assert_close(log_likelihood(logits, means, deviations, action), expected)


def test_modes_stay_inside_the_limits_and_keep_a_width():
    _, means, deviations = Mixture(8, 16, 5, 3, 1e-4)(100 * torch.randn(64, 8))
    assert means.shape == deviations.shape == (64, 5, 3)
    assert means.abs().max() <= 1
    assert deviations.min() >= 1e-4


@torch.no_grad()
def test_acting_draws_a_mode_and_stays_near_its_mean():
    policy = small.untrained(small.tiny_of("resnet-t"))
    condition = torch.randn(1, policy.frames, policy.encoder.dim).expand(40, -1, -1)
    actions = policy.normal_actions(policy.predict(condition, [keyed_generator(row) for row in range(40)]))[:, 0]
    _, means, _ = policy.head(policy.features(condition)[:, -1])
    distance = (actions[:, None] - means).abs().amax(-1)  # (40, M)
    assert distance.amin(1).max() < 1e-3
    assert len(distance.argmin(1).unique()) > 1


@torch.no_grad()
def test_a_frame_is_read_with_all_its_keys_and_none_of_later_frames():
    policy = small.untrained(small.tiny_of("resnet-t", "cloud"))
    assert policy.keys == 2
    condition = torch.randn(2, policy.frames, policy.encoder.dim)
    for part in (slice(0, 8), slice(8, 16)):  # state, cloud
        other = condition.clone()
        other[:, 1, part] += 1
        moved = (policy.features(other) - policy.features(condition)).abs().amax((0, 2))
        assert moved[0] < 1e-6
        assert (moved[1:] > 1e-4).all()


def test_it_learns_a_toy_set(tmp_path):
    changes = {"training.steps": 200, "training.batch": 32, "training.learning_rate": 5e-3, "policy.gpt.dropout": 0.0}
    assert error(trained("resnet-t", tmp_path, **changes)) < 0.15
