from __future__ import annotations

import torch

from mgp.data.demonstrations import keyed_generator
from mgp.model.transformer import Vocabulary
from mgp.sampling.config import SamplingConfig
from mgp.sampling.short import plan_short


def test_a_window_starts_blank_and_never_ends_early():
    words, asked = Vocabulary(6), []

    def network(tokens: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        asked.append(tokens.clone())
        logits = torch.zeros(*wanted.shape, words.predicted)
        logits[..., words.end] = 9.0  # it would like to end at once
        return logits

    generators = [keyed_generator(seed) for seed in range(3)]
    out = plan_short(network, 3, 4, SamplingConfig(temperature=1.0, refine_steps=2), words, generators)
    assert out.tokens.shape == (3, 4)
    assert (out.tokens < words.codes).all()
    assert [(tokens == words.mask).sum(1).tolist() for tokens in asked] == [[4, 4, 4], [2, 2, 2]]


def test_tokens_that_are_known_begin_the_window_and_stay():
    words, asked = Vocabulary(6), []

    def network(tokens: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        asked.append(tokens.clone())
        return torch.randn(*wanted.shape, words.predicted, generator=keyed_generator(len(asked)))

    known = torch.tensor([[1, 2], [3, 4]])
    config, generators = SamplingConfig(temperature=1.0, refine_steps=3), [keyed_generator(seed) for seed in range(2)]
    out = plan_short(network, 2, 5, config, words, generators, known)
    assert torch.equal(out.tokens[:, :2], known)
    assert all(torch.equal(tokens[:, :2], known) for tokens in asked)
    assert (out.tokens < words.codes).all()
    assert torch.isfinite(out.confidence[:, 2:]).all()
