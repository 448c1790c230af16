"""Which masked tokens flip, by code as in the paper and by action, on plans made by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import small
from mgp.evaluation.probe import ACTION_CHANGE, action_change, flips, flips_by_action
from mgp.sampling.long import Edit


def edited(before: list[int], tokens: list[int], rounds: list[int]) -> Edit:
    nothing = torch.zeros(1, len(before))
    return Edit(torch.tensor([tokens]), nothing, torch.tensor([rounds]), torch.tensor([before]), nothing, nothing)


def test_a_flip_is_a_masked_token_that_came_back_as_another_code():
    # the last one changed without being masked
    masked, flipped = flips(edited([1, 2, 3, 4, 5], [1, 9, 3, 8, 7], [0, 1, 2, 2, 0]))
    assert masked.tolist() == [[False, True, True, True, False]]
    assert flipped.tolist() == [[False, True, False, True, False]]


def test_near_duplicates_flip_by_code_alone_and_far_codes_by_action_too():
    policy = small.policy(small.tiny("long"))
    codes = policy.tokenizer.codebook.codes  # untrained, the decoder is linear and looks at no neighbours
    codes[8:] = codes[:8] + ACTION_CHANGE / 50  # 8 to 15 are near-duplicates of 0 to 7
    near = edited([0, 1, 2, 3, 4, 5], [0, 9, 10, 3, 12, 5], [0, 1, 2, 1, 2, 0])
    assert flips(near)[1].sum() == 3
    assert not flips_by_action(policy, near).any()
    codes[8:] = -codes[:8]
    far = edited([0, 1, 2, 3, 4, 5], [0, 9, 10, 3, 4, 13], [0, 1, 2, 1, 2, 0])  # the last one was not masked
    assert flips_by_action(policy, far).tolist() == [[False, True, True, False, False, False]]
    assert np.array_equal(flips_by_action(policy, far), flips(far)[1])


def test_the_largest_change_of_a_token_counts():
    before, after = torch.zeros(1, 3, 2, 3), torch.zeros(1, 3, 2, 3)
    after[0, 0, 1] = torch.tensor([0.01, -0.3, 0.1])
    after[0, 2, 0, 0] = 0.02
    assert action_change(before, after).tolist() == [[pytest.approx(0.3), 0, pytest.approx(0.02)]]


def test_plans_are_decoded_whole_and_normalised():
    policy = small.policy(small.tiny("long"))
    plan = torch.tensor([[1, 2, 2, 5, 3, 2]])
    decoded = policy.decoded(plan)
    assert decoded.shape == (1, 6, 4, small.ACTION)
    assert decoded.abs().max() <= 1
    actions = policy.normalizer.normalize("action", policy.actions(plan))
    torch.testing.assert_close(decoded.flatten(1, 2), actions)
