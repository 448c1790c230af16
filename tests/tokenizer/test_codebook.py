from __future__ import annotations

import pytest
import torch

from mgp.data.demonstrations import keyed_generator
from mgp.tokenizer.codebook import Codebook


def filled(size: int = 8, dim: int = 4, **options) -> Codebook:
    codebook = Codebook(size, dim, **options)
    codebook.initialise(torch.randn(64, dim, generator=keyed_generator(0)), keyed_generator(1))
    return codebook


def update(codebook: Codebook, latents: torch.Tensor, seed: int = 0) -> int:
    return codebook.update(latents, codebook.nearest(latents), keyed_generator(seed))


def test_the_moving_averages_equal_those_of_vector_quantize_pytorch():
    library = pytest.importorskip("vector_quantize_pytorch")
    ours = Codebook(32, 4, decay=0.9, reset_after=10**9)
    ours.initialise(torch.randn(200, 4, generator=keyed_generator(0)), keyed_generator(1))
    theirs = library.VectorQuantize(
        dim=4, codebook_size=32, decay=0.9, eps=1e-5, kmeans_init=False, threshold_ema_dead_code=0, rotation_trick=False
    )
    theirs.train()
    for name, value in (("embed", ours.codes), ("embed_avg", ours.sums), ("cluster_size", ours.counts)):
        getattr(theirs._codebook, name).data.copy_(value[None])
    for step in range(10):
        latents = 0.5 * torch.randn(6, 20, 4, generator=keyed_generator(2, step)) + 0.1 * step
        found = ours.nearest(latents)
        quantised, theirs_found, _ = theirs(latents)
        assert torch.equal(found, theirs_found)
        torch.testing.assert_close(ours.lookup(found), quantised)
        ours.update(latents, found, keyed_generator(3))
        torch.testing.assert_close(ours.codes, theirs._codebook.embed[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(ours.sums, theirs._codebook.embed_avg[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(ours.counts, theirs._codebook.cluster_size[0], rtol=1e-5, atol=1e-6)


def test_nearest_is_the_closest_code():
    codebook = filled()
    latents = torch.randn(5, 7, 4, generator=keyed_generator(9))
    brute = (latents[:, :, None] - codebook.codes).square().sum(-1).argmin(-1)
    assert torch.equal(codebook.nearest(latents), brute)


def test_codes_start_as_distinct_latents_of_the_first_batch():
    latents = torch.randn(20, 4, generator=keyed_generator(0))
    codebook = Codebook(8, 4)
    assert not codebook.initialised
    codebook.initialise(latents, keyed_generator(1))
    assert codebook.initialised
    assert all((latents == code).all(1).any() for code in codebook.codes)
    assert len(codebook.codes.unique(dim=0)) == 8
    more = Codebook(50, 4)  # more codes than latents: repeats, but every latent is there
    more.initialise(latents, keyed_generator(1))
    assert len(more.codes.unique(dim=0)) == 20


def test_a_dead_code_is_reset_to_a_latent_and_stays_there_after_the_next_update():
    codebook = filled(reset_after=3, decay=0.99)
    codebook.codes[5] = codebook.sums[5] = 1000.0  # nobody will ever take it
    latents = codebook.codes[[0, 1, 2, 3, 4, 6, 7]].clone()
    assert [update(codebook, latents) for _ in range(3)] == [0, 0, 1]
    fresh = codebook.codes[5].clone()
    assert (latents == fresh).all(1).any()
    elsewhere = latents[(latents != fresh).any(1)]
    update(codebook, elsewhere)  # the code is not taken: its vector comes from its statistics alone
    torch.testing.assert_close(codebook.codes[5], fresh, rtol=1e-3, atol=1e-3)


def test_a_code_that_was_used_once_dies_when_it_is_not_used_for_a_while():
    codebook = filled(reset_after=4)
    everyone, most = codebook.codes.clone(), codebook.codes[1:].clone()
    update(codebook, everyone)
    for unused in range(1, 4):
        assert update(codebook, most) == 0
        assert codebook.unused[0] == unused
    assert update(codebook, most) == 1
    assert codebook.unused[0] == 0


def test_a_code_that_is_used_now_and_then_lives():
    codebook = filled(reset_after=3)
    for step in range(12):
        latents = codebook.codes.clone() if step % 3 == 2 else codebook.codes[1:].clone()
        assert update(codebook, latents) == 0


def test_all_state_is_in_buffers_so_that_a_loaded_codebook_goes_on_identically():
    codebook = filled(reset_after=3)
    batches = [torch.randn(4, 4, generator=keyed_generator(7, step)) for step in range(12)]
    for step in range(6):
        update(codebook, batches[step], step)
    loaded = Codebook(8, 4, reset_after=3)
    loaded.load_state_dict(codebook.state_dict(), strict=True)
    assert loaded.initialised
    resets = 0
    for step in range(6, 12):
        resets += update(codebook, batches[step], step)
        update(loaded, batches[step], step)
    assert resets > 0, "the test must cover resets"
    for name, tensor in codebook.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name
    assert set(codebook.state_dict()) == {"codes", "counts", "sums", "unused", "initialised"}
    assert not list(codebook.parameters())


def test_updates_do_not_touch_their_inputs():
    codebook = filled(reset_after=1)
    latents = torch.randn(3, 5, 4, generator=keyed_generator(4))
    before = latents.clone()
    update(codebook, latents)
    assert torch.equal(latents, before)
