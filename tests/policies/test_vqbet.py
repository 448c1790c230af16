"""VQ-BeT: residual codes and back, and that it learns."""

from __future__ import annotations

import torch
from learning import error, trained

import small
from mgp.data.demonstrations import keyed_generator
from mgp.policies.vqbet import ResidualAutoencoder, ResidualConfig
from mgp.sampling.losses import focal_loss
from mgp.tokenizer.vqvae import fingerprint


def test_codes_decode_to_what_they_encode():
    tokenizer = ResidualAutoencoder(ResidualConfig(16, 12), 5, 3)
    actions = torch.rand(64, 5, 3) * 2 - 1
    for _ in range(3):
        tokenizer.reconstruct(actions)  # the first call makes the codebooks
    before = fingerprint(tokenizer)
    codes = tokenizer.encode(actions)
    again, same, _ = tokenizer.reconstruct(actions)
    assert codes.equal(same)
    assert codes.shape == (64, 2)
    assert len(codes[:, 0].unique()) > 4
    torch.testing.assert_close(tokenizer.decode(codes), again)
    vectors = tokenizer.quantizer.codebooks  # (2, K, D): a chunk is the sum of its two vectors
    summed = vectors[0][codes[:, 0]] + vectors[1][codes[:, 1]]
    torch.testing.assert_close(tokenizer.decode(codes), tokenizer.decoder(summed).unflatten(1, (5, 3)))
    assert fingerprint(tokenizer) == before  # encoding moves no codebook


def test_the_second_stage_moves_no_codebook():
    policy = small.untrained(small.tiny_of("vqbet", **{"policy.chunk": 5}))
    stages, data = policy.stages(), small.demonstrations()
    before = []
    for stage in stages:
        policy.begin_stage(stage)
        source = policy.source(stage, data)
        for step in range(3):
            policy.train()
            loss, _ = policy.loss(stage, source.draw(8, keyed_generator(step)), keyed_generator(step))
            assert loss.isfinite()
        before.append(fingerprint(policy.tokenizer))
    assert before[0] == before[1]


def test_focal_loss_of_a_known_case():
    logits = torch.log(torch.tensor([[0.5, 0.5], [0.9, 0.1]]))
    expected = torch.tensor([0.25 * -torch.log(torch.tensor(0.5)), 0.01 * -torch.log(torch.tensor(0.9))])
    torch.testing.assert_close(focal_loss(logits, torch.tensor([1, 0]), 2.0), expected)


def test_each_frame_has_the_chunk_that_follows_it():
    policy = small.untrained(small.tiny_of("vqbet", **{"policy.chunk": 5}))
    assert (policy.past, policy.window) == (2, 7)
    assert policy.chunks(torch.arange(7)[None])[0].tolist() == [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [2, 3, 4, 5, 6]]


def test_the_offset_belongs_to_the_codes():
    policy = small.untrained(small.tiny_of("vqbet", **{"policy.chunk": 5}))
    features, codes = torch.randn(4, 12), torch.randint(16, (4, 2), generator=keyed_generator(0))
    with torch.no_grad():
        offsets = policy.offset_head(features).view(4, 2, 16, 5, small.ACTION)
        own = torch.stack([offsets[row, 0, codes[row, 0]] + offsets[row, 1, codes[row, 1]] for row in range(4)])
        torch.testing.assert_close(policy.actions(features, codes), policy.tokenizer.decode(codes) + own)


def test_it_learns_a_toy_set(tmp_path):
    changes = {
        "training.steps": 150, "training.batch": 32, "training.learning_rate": 5e-3, "policy.tokenizer.steps": 60,
        "policy.tokenizer.batch": 64, "policy.gpt.dropout": 0.0, "policy.hidden": 64,
    }  # fmt: skip
    assert error(trained("vqbet", tmp_path, **changes), 4) < 0.15
