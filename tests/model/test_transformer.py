from __future__ import annotations

import pytest
import torch

from mgp.data.demonstrations import keyed_generator
from mgp.model.transformer import MaskedTransformer, TransformerConfig, Vocabulary, attend

BATCH, SIZE, HISTORY, WIDTH, CODES = 3, 6, 2, 5, 10


def transformer(tokens: int = 8, **changes) -> MaskedTransformer:
    """For plans of up to so many tokens."""
    torch.manual_seed(0)
    config = TransformerConfig(**{"dim": 16, "heads": 2, "cross_layers": 2, "self_layers": 2} | changes)
    return MaskedTransformer(config, torch.randn(CODES, 4), WIDTH, HISTORY, tokens).eval()


def inputs(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = keyed_generator(seed)
    tokens = torch.randint(CODES, (BATCH, SIZE), generator=random)
    return tokens, torch.randn(BATCH, HISTORY, WIDTH, generator=random), torch.zeros(BATCH, dtype=torch.long)


def test_the_vocabulary_has_codes_end_pad_mask_and_predicts_the_first_two():
    words = Vocabulary(CODES)
    assert (words.end, words.pad, words.mask, words.predicted) == (10, 11, 12, 11)


@pytest.mark.parametrize("time", ["relative", "absolute", "both"])
@torch.no_grad()
def test_logits_cover_codes_and_end_for_every_token(time):
    model = transformer(time=time)
    tokens, condition, executed = inputs()
    tokens[0] = model.vocabulary.mask
    tokens[1, 3], tokens[1, 4:] = model.vocabulary.end, model.vocabulary.pad
    out = model(tokens, condition, executed)
    assert out.shape == (BATCH, SIZE, CODES + 1)
    assert out.isfinite().all()


@pytest.mark.parametrize("local", [0, 2])
@torch.no_grad()
def test_padding_does_not_influence_other_logits(local):
    model = transformer(local=local)
    tokens, condition, executed = inputs()
    tokens[:, 4:] = model.vocabulary.pad
    padded = model(tokens, condition, executed)[:, :4]
    torch.testing.assert_close(padded, model(tokens[:, :4], condition, executed))
    model.embed_special[1] += 10.0  # the vector of [PAD]
    torch.testing.assert_close(model(tokens, condition, executed)[:, :4], padded)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_the_same_to_train_and_to_act(masked):
    query, key, value = torch.randn(3, 2, 4, 7, 8, generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(7) < torch.tensor([[7], [4]]))[:, None, None, :] if masked else None
    trained = attend(query.requires_grad_(), key, value, mask)
    with torch.no_grad():
        torch.testing.assert_close(trained, attend(query, key, value, mask))
    assert trained.requires_grad


@torch.no_grad()
def test_other_tokens_and_specials_do_influence_each_other():
    model = transformer()
    tokens, condition, executed = inputs()
    base = model(tokens, condition, executed)[:, 0]
    for word in (model.vocabulary.mask, model.vocabulary.end, 3):
        changed = tokens.clone()
        changed[:, -1] = word
        assert (tokens[:, -1] != word).all()
        assert not torch.allclose(model(changed, condition, executed)[:, 0], base, atol=1e-5)


@torch.no_grad()
def test_every_frame_of_the_condition_counts_and_their_order_too():
    model = transformer()
    tokens, condition, executed = inputs()
    base = model(tokens, condition, executed)
    for frame in range(HISTORY):
        changed = condition.clone()
        changed[:, frame] += 1
        assert not torch.allclose(model(tokens, changed, executed), base, atol=1e-4)
    assert not torch.allclose(model(tokens, condition.flip(1), executed), base, atol=1e-4)


@torch.no_grad()
def test_rows_do_not_influence_each_other():
    model = transformer()
    tokens, condition, executed = inputs()
    together = model(tokens, condition, executed)
    for row in range(BATCH):
        one = slice(row, row + 1)
        torch.testing.assert_close(model(tokens[one], condition[one], executed[one])[0], together[row])


@torch.no_grad()
def test_relative_time_counts_from_the_executed_tokens():
    relative, absolute = transformer(time="relative"), transformer(time="absolute")
    tokens, condition, executed = inputs()
    # the last four tokens, seen with two executed, stand where the four of a shorter sequence stand with none
    tail = tokens[:, 2:]
    padded = torch.cat([torch.full((BATCH, 2), relative.vocabulary.pad), tail], dim=1)
    shifted = relative(padded, condition, executed + 2)[:, 2:]
    torch.testing.assert_close(shifted, relative(tail, condition, executed))
    assert not torch.allclose(
        relative(tokens, condition, executed + 2), relative(tokens, condition, executed), atol=1e-4
    )
    torch.testing.assert_close(absolute(tokens, condition, executed + 2), absolute(tokens, condition, executed))
    both = transformer(time="both")
    assert not torch.allclose(both(tokens, condition, executed + 2), both(tokens, condition, executed), atol=1e-4)
    moved = both(padded, condition, executed + 2)[:, 2:]
    assert not torch.allclose(moved, both(tail, condition, executed), atol=1e-4), "the index counts too"


@torch.no_grad()
def test_all_places_up_to_a_whole_plan_executed_are_embedded():
    model = transformer(SIZE)
    tokens, condition, executed = inputs()
    for done in range(SIZE + 1):
        assert model(tokens, condition, executed + done).isfinite().all()


@torch.no_grad()
def test_a_local_convolution_shows_a_token_its_neighbours_and_no_others():
    model = transformer(local=1, self_layers=0)
    tokens, condition, executed = inputs()
    base = model(tokens, condition, executed)
    tokens[:, 2] = (tokens[:, 2] + 1) % CODES
    changed = (model(tokens, condition, executed) != base).any(-1).any(0)
    assert changed.tolist() == [False, True, True, True, False, False]


@torch.no_grad()
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_logits_of_some_tokens_are_those_of_all(layers):
    model = transformer(self_layers=layers)
    tokens, condition, executed = inputs()
    wanted = (torch.rand(BATCH * SIZE, generator=keyed_generator(1)) < 0.5).nonzero().squeeze(1)
    whole = model(tokens, condition, executed)
    torch.testing.assert_close(model(tokens, condition, executed, wanted), whole.flatten(0, 1)[wanted])
