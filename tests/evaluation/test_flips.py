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
    return Edit(torch.tensor([tokens]), nothing, torch.tensor([rounds]), torch.tensor([before]), nothing)


def test_a_flip_is_a_masked_token_that_came_back_as_another_code():
    # the last one changed without being masked
    masked, flipped = flips(edited([1, 2, 3, 4, 5], [1, 9, 3, 8, 7], [0, 1, 2, 2, 0]))
    assert masked.tolist() == [[False, True, True, True, False]]
    assert flipped.tolist() == [[False, True, False, True, False]]


def test_near_duplicates_flip_by_code_alone_and_far_codes_by_action_too():
    policy = small.policy(small.tiny("long"))
    codes = policy.network.tokenizer.codebook.codes  # untrained, the decoder is linear and looks at no neighbours
    codes[8:] = codes[:8] + ACTION_CHANGE / 50  # 8 to 15 are near-duplicates of 0 to 7
    near = edited([0, 1, 2, 3, 4, 5], [0, 9, 10, 3, 12, 5], [0, 1, 2, 1, 2, 0])
    assert flips(near)[1].sum() == 3
    assert not flips_by_action(policy, near).any()
    codes[8:] = -codes[:8]
    far = edited([0, 1, 2, 3, 4, 5], [0, 9, 10, 3, 4, 13], [0, 1, 2, 1, 2, 0])  # the last one was not masked
    assert flips_by_action(policy, far).tolist() == [[False, True, True, False, False, False]]
    assert np.array_equal(flips_by_action(policy, far), flips(far)[1])


def test_the_largest_change_of_a_token_counts_and_an_end_changes_everything():
    before, after = torch.zeros(1, 4, 2, 3), torch.zeros(1, 4, 2, 3)
    after[0, 0, 1] = torch.tensor([0.01, -0.3, 0.1])
    after[0, 2:], before[0, 3:] = torch.nan, torch.nan  # one plan is over from the third token on, the other later
    assert action_change(before, after).tolist() == [[pytest.approx(0.3), 0, np.inf, 0]]
    policy = small.policy(small.tiny("long", **{"sampling.allow_end": True}))
    end = policy.network.transformer.vocabulary.end
    decoded = policy.decoded(torch.tensor([[1, 2, end, 3, 3, 3]]))
    assert decoded.shape == (1, 6, 4, small.ACTION)
    assert decoded.isnan().all((2, 3)).tolist() == [[False, False, True, True, True, True]]
    actions = policy.network.normalizer.normalize("action", policy.network.actions(torch.tensor([[1, 2, 2, 2, 2, 2]])))
    torch.testing.assert_close(decoded[0, :2].flatten(0, 1), actions[0, :8])
    ended = edited([1, 2, 3, 4, 5, 6], [1, 2, 3, end, 5, 6], [0, 0, 0, 1, 0, 0])
    assert flips_by_action(policy, ended).tolist() == [[False, False, False, True, False, False]]
