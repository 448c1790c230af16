"""QueST: tokens and back, decoding, and that it learns."""

from __future__ import annotations

import sys

import pytest
import torch
from learning import error, trained

import small
from mgp.data.demonstrations import keyed_generator
from mgp.errors import ConfigError


@pytest.fixture
def policy():
    return small.untrained(small.tiny_of("quest"))


def test_tokens_go_round_through_the_quantiser(policy):
    tokenizer = policy.tokenizer
    every = torch.arange(tokenizer.codes)
    codes = tokenizer.quantizer._indices_to_codes(every)
    assert tokenizer.quantizer.codes_to_indices(codes).equal(every.int())
    actions = torch.rand(6, 16, small.ACTION) * 2 - 1
    vectors, tokens = tokenizer.quantized(actions)
    assert tokens.shape == (6, 4)
    assert tokens.equal(tokenizer.encode(actions))
    torch.testing.assert_close(tokenizer.decode(tokens), tokenizer.decoded(vectors), atol=1e-5, rtol=1e-5)


def test_windows_of_the_tokenizer_come_from_all_over(policy):
    """Segments share frames, which the tokenizer has none of: a batch of them would be one of few scenes."""
    data = small.demonstrations()
    tokenizer, prior = (policy.source(stage, data).draw(64, keyed_generator(0)).actions for stage in policy.stages())
    follow = [(part[:-1, 1:] == part[1:, :-1]).all(2).all(1).float().mean() for part in (tokenizer, prior)]
    assert follow[0] < 0.1 < 0.4 < follow[1], "share of windows that follow the one before"


def test_a_token_depends_on_nothing_after_it(policy):
    actions = torch.rand(2, 16, small.ACTION)
    other = actions.clone()
    other[:, 9:] += 0.5
    one, two = (policy.tokenizer.encoder(policy.tokenizer.convs(policy.tokenizer.embed(a))) for a in (actions, other))
    torch.testing.assert_close(one[:, :3], two[:, :3])  # tokens see actions 0, 4, 8 and those before
    assert (one[:, 3] - two[:, 3]).abs().max() > 1e-4


@torch.no_grad()
def test_writing_token_by_token_equals_teacher_forcing(policy):
    condition = torch.randn(3, policy.frames, policy.encoder.dim)
    greedy = policy.with_sampling(temperature=0.0)
    tokens = greedy.write(condition, [])
    assert tokens.equal(greedy.logits(tokens, condition).argmax(-1))
    drawn = policy.write(condition, [keyed_generator(row) for row in range(3)])
    likeliest = policy.logits(drawn, condition).topk(5).indices
    assert (likeliest == drawn[..., None]).any(-1).all()  # each of the 5 likeliest, given those before it


@torch.no_grad()
def test_a_batch_equals_its_rows(policy):
    condition = torch.randn(3, policy.frames, policy.encoder.dim)
    together = policy.write(condition, [keyed_generator(row) for row in range(3)])
    alone = [policy.write(condition[row : row + 1], [keyed_generator(row)]) for row in range(3)]
    assert together.equal(torch.cat(alone))


def test_without_the_library_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "vector_quantize_pytorch", None)
    with pytest.raises(ConfigError, match=r"pip install 'masked-generative-policy\[baselines\]'"):
        small.untrained(small.tiny_of("quest"))


def test_strides_must_divide_the_chunk():
    with pytest.raises(ConfigError, match="chunk = 18 is no multiple of 4"):
        small.tiny_of("quest", **{"policy.chunk": 18})


def test_it_learns_a_toy_set(tmp_path):
    changes = {
        "training.steps": 200, "training.batch": 32, "training.learning_rate": 5e-3, "policy.autoencoder.steps": 150,
        "policy.autoencoder.batch": 32, "policy.autoencoder.learning_rate": 5e-3, "policy.sampling.temperature": 0.0,
        "policy.autoencoder.dim": 32, "policy.prior.dim": 32,
    }  # fmt: skip
    assert error(trained("quest", tmp_path, **changes), 4) < 0.2
