from __future__ import annotations

import pytest
import torch

from mgp.data.demonstrations import keyed_generator
from mgp.errors import DataError
from mgp.tokenizer.vqvae import ActionTokenizer, TokenizerConfig

SMALL = {"window": 16, "codes": 32, "code_dim": 4, "width": 16, "reset_after": 20}


def actions(batch: int, length: int = 16, width: int = 3, seed: int = 0) -> torch.Tensor:
    """Smooth, in [-1, 1]."""
    phase = 6 * torch.rand(batch, 1, 1, generator=keyed_generator(seed))
    return torch.sin(torch.arange(length)[None, :, None] / 5 + phase + torch.arange(width))


def ready(**changes) -> ActionTokenizer:
    torch.manual_seed(0)
    tokenizer = ActionTokenizer(TokenizerConfig(**SMALL | changes), 3)
    tokenizer.codebook.initialise(tokenizer.latents(actions(64)).detach(), keyed_generator(1))
    return tokenizer


@pytest.mark.parametrize("per", [2, 4, 8])
@pytest.mark.parametrize("width", [1, 7])
def test_shapes_for_each_number_of_actions_a_token(per, width):
    tokenizer = ActionTokenizer(TokenizerConfig(**SMALL | {"actions_per_token": per}), width)
    for length in (16, 48):  # any multiple, not just the window
        tokens = tokenizer.encode(actions(5, length, width))
        assert tokens.shape == (5, length // per)
        assert tokens.dtype == torch.long
        assert tokenizer.decode(tokens).shape == (5, length, width)


def test_wrong_shapes_are_refused_with_both_numbers():
    tokenizer = ready()
    with pytest.raises(DataError, match="multiple of 4"):
        tokenizer.encode(actions(2, 15))
    with pytest.raises(DataError, match="width 3"):
        tokenizer.encode(actions(2, 16, 4))


@pytest.mark.parametrize("bad", [-1, 32, 33, 34])
def test_specials_are_never_decoded(bad):
    tokens = torch.zeros(2, 4, dtype=torch.long)
    tokens[1, 2] = bad
    with pytest.raises(DataError, match=r"no code \(0 to 31\)"):
        ready().decode(tokens)


def test_training_reduces_the_error_and_uses_many_codes():
    tokenizer = ready()
    optimizer = torch.optim.Adam(tokenizer.parameters(), 3e-3)
    held_out = actions(50, seed=99)
    before = (tokenizer.reconstruct(held_out) - held_out).abs().mean()
    for step in range(150):
        loss = tokenizer.training_loss(actions(32, seed=step), keyed_generator(step)).total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = (tokenizer.reconstruct(held_out) - held_out).abs().mean()
    assert after < 0.35 * before
    assert len(tokenizer.encode(held_out).unique()) > 20


def test_the_loss_is_equation_1_and_gradients_reach_encoder_and_decoder():
    tokenizer, batch = ready(commit_weight=0.02), actions(8)
    with torch.no_grad():
        for parameter in tokenizer.parameters():  # layers may start at zero, which keeps gradients from those before
            parameter += 0.05 * torch.randn(parameter.shape, generator=keyed_generator(3))
    codes = tokenizer.codebook.codes.clone()
    latents = tokenizer.latents(batch)
    nearest = codes[tokenizer.codebook.nearest(latents)]
    l1 = (tokenizer.decode_vectors(nearest) - batch).abs().mean()
    commit = (latents - nearest).square().mean()
    out = tokenizer.training_loss(batch, keyed_generator(0))
    torch.testing.assert_close(out.total, l1 + 0.02 * commit)
    out.total.backward()
    for name, parameter in tokenizer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
    assert not torch.equal(tokenizer.codebook.codes, codes), "the codebook follows by moving averages"


def test_a_first_batch_initialises_the_codebook_once():
    tokenizer = ActionTokenizer(TokenizerConfig(**SMALL), 3)
    tokenizer.training_loss(actions(8), keyed_generator(0))
    codes = tokenizer.codebook.codes.clone()
    assert tokenizer.codebook.initialised
    tokenizer.training_loss(actions(8, seed=1), keyed_generator(1))
    assert (tokenizer.codebook.codes - codes).abs().mean() < 0.1 * codes.abs().mean(), "it was not initialised again"


def test_the_fingerprint_sees_every_weight_and_code():
    tokenizer = ready()
    first = tokenizer.fingerprint()
    assert ready().fingerprint() == first
    for name, tensor in tokenizer.state_dict().items():
        kept = tensor.clone()
        with torch.no_grad():
            tensor.view(-1)[0] = ~kept.view(-1)[0] if kept.dtype == torch.bool else kept.view(-1)[0] + 1
        assert tokenizer.fingerprint() != first, name
        tensor.copy_(kept)
    assert tokenizer.fingerprint() == first


@pytest.mark.parametrize("per", [2, 4, 8])
def test_decoding_from_a_token_on_is_decoding_all(per):
    tokenizer = ActionTokenizer(TokenizerConfig(window=8 * per, actions_per_token=per, codes=32, width=8), 3).eval()
    for parameter in tokenizer.decoder.parameters():  # the last layer starts at zero and would hide the rest
        torch.nn.init.normal_(parameter, std=0.3)
    torch.nn.init.normal_(tokenizer.codebook.codes)
    tokens = torch.randint(32, (2, 50), generator=keyed_generator(0))
    whole = tokenizer.decode(tokens)
    for first in (0, 3, 9, 17, 31, 49, 50, 60):
        part = tokenizer.decode_from(tokens, first)
        torch.testing.assert_close(part, whole[:, first * per :], rtol=1e-4, atol=1e-4)


def test_an_action_depends_on_no_token_beyond_the_decoders_reach():
    for per in (2, 4, 8):
        tokenizer = ActionTokenizer(TokenizerConfig(window=8 * per, actions_per_token=per, codes=32, width=8), 3)
        for parameter in tokenizer.decoder.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        vectors = torch.randn(1, 40, 16, requires_grad=True)
        tokenizer.decode_vectors(vectors)[0, 20 * per].sum().backward()
        far = vectors.grad[0].abs().sum(1).nonzero().flatten() - 20
        assert far.abs().max() <= tokenizer.decoder.reach
        assert far.abs().max() >= tokenizer.decoder.reach - 1, "nor is the reach larger than it need be"
