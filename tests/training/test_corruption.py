from __future__ import annotations

import dataclasses

import pytest
import torch

from mgp.data.demonstrations import keyed_generator
from mgp.model.transformer import Vocabulary
from mgp.sampling import corruption
from mgp.sampling.corruption import CUT, Corrupted, MaskingConfig, choose, close, corrupt_long, corrupt_short, perturb

WORDS = Vocabulary(50)
BATCH, SIZE, NEAR = 400, 12, 3
# without `end`, no sequence is cut
PLAIN = MaskingConfig(
    perturb=0.0, end=False, prefix_dropout=0.0, foreign_prefix=0.0, foreign_plan=0.0, prefix_weight=0.1
)


def sample(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, valid length, executed and a donor whose codes are none of the tokens'."""
    random = keyed_generator(seed)
    tokens = torch.randint(25, (BATCH, SIZE), generator=random)
    executed = torch.randint(SIZE - 1, (BATCH,), generator=random)
    length = executed + 1 + (torch.rand(BATCH, generator=random) * (SIZE - executed)).long()
    donor = 25 + torch.randint(25, (BATCH, SIZE), generator=random)
    return tokens, length.clamp_max(SIZE), executed, donor


def corrupt(seed: int = 0, **changes) -> tuple[Corrupted, tuple[torch.Tensor, ...]]:
    drawn = sample(seed)
    kept = [part.clone() for part in drawn]
    out = corrupt_long(*drawn, NEAR, WORDS, dataclasses.replace(PLAIN, **changes), keyed_generator(seed, 1))
    assert all(torch.equal(a, b) for a, b in zip(drawn, kept, strict=True)), "inputs are not changed in place"
    return out, drawn


def place() -> torch.Tensor:
    return torch.arange(SIZE)[None]


def test_targets_are_the_tokens_then_end_then_padding():
    out, (tokens, length, _, _) = corrupt()
    for row in range(BATCH):
        end = int(length[row])
        expected = tokens[row, :end].tolist() + ([WORDS.end] + [WORDS.pad] * (SIZE - end - 1) if end < SIZE else [])
        assert out.target[row].tolist() == expected


def test_padding_has_no_weight_and_is_visible_as_padding():
    out, _ = corrupt(end=True, perturb=0.5, foreign_prefix=0.5, foreign_plan=0.5, prefix_dropout=0.5)
    padding = out.target == WORDS.pad
    assert padding.any()
    assert (out.weight[padding] == 0).all()
    assert (out.weight[~padding] > 0).all(), "the loss is over all valid tokens, visible ones too"
    assert (out.tokens[padding] == WORDS.pad).all()
    assert (out.target[~padding] <= WORDS.end).all()


def test_a_cut_shortens_behind_the_executed_tokens_and_ends_with_end(monkeypatch):
    monkeypatch.setattr(corruption, "CUT", 1.0)
    out, (tokens, length, executed, _) = corrupt(end=True)
    ended = (out.target == WORDS.end).int().argmax(1)
    has_end = (out.target == WORDS.end).any(1)
    longer = length - executed > 1
    assert has_end[longer].all()
    assert (ended[longer] < length[longer]).all()
    assert (ended[longer] > executed[longer]).all(), "at least the token to be executed next is left"
    kept = place() < torch.where(has_end, ended, SIZE)[:, None]
    assert torch.equal(out.target[kept], tokens[kept])
    wide = (length - executed) > 4
    assert len(ended[wide].unique()) > 4, "cuts fall everywhere"


def test_the_share_of_cut_sequences():
    full = torch.full((BATCH,), SIZE)
    nothing = torch.zeros(BATCH, dtype=torch.long)
    tokens, _, _, donor = sample()
    for end, share in ((True, CUT), (False, 0.0)):
        config = dataclasses.replace(PLAIN, end=end)
        out = corrupt_long(tokens, full, nothing, donor, NEAR, WORDS, config, keyed_generator(5))
        assert (out.target == WORDS.end).any(1).float().mean() == pytest.approx(share, abs=0.08 * end)


def test_the_executed_prefix_is_seen_whole_and_clean_unless_asked_otherwise():
    out, (tokens, _, executed, _) = corrupt()
    past = place() < executed[:, None]
    assert torch.equal(out.tokens[past], tokens[past])


def test_dropped_prefixes_are_masked_as_a_whole_in_their_share_of_samples():
    out, (tokens, _, executed, _) = corrupt(prefix_dropout=0.5)
    past = place() < executed[:, None]
    hidden = (out.tokens == WORDS.mask) & past
    some = executed > 0
    whole, none = (hidden == past).all(1), ~hidden.any(1)
    assert (whole | none)[some].all(), "never a part of it"
    assert 0.42 < whole[some].float().mean() < 0.58
    assert torch.equal(out.tokens[past & ~hidden], tokens[past & ~hidden])


@pytest.mark.parametrize("part", ["prefix", "plan"])
def test_foreign_tokens_come_from_the_donor_in_their_share_of_samples(part):
    out, (tokens, _, executed, donor) = corrupt(**{f"foreign_{part}": 0.5})
    past = place() < executed[:, None]
    region = (past if part == "prefix" else ~past) & (out.tokens < WORDS.codes)
    foreign = out.tokens >= 25
    assert torch.equal(out.tokens[region & foreign], donor[region & foreign])
    assert torch.equal(out.tokens[region & ~foreign], tokens[region & ~foreign])
    elsewhere = ~region & (out.tokens < WORDS.codes)
    assert torch.equal(out.tokens[elsewhere], tokens[elsewhere])
    some = region.any(1)
    share = (region & foreign).any(1)[some]
    assert 0.42 < share.float().mean() < 0.58
    assert ((region & foreign) == region)[some][share].all(), "all of it, or none"
    assert (out.target[out.target < WORDS.codes] < 25).all(), "targets stay the demonstration's own"


def test_a_stale_plan_is_in_view_where_tokens_are_pending_and_the_target_stays():
    tokens, length, executed, donor = sample()
    rest = (tokens, length, executed, donor, NEAR, WORDS)
    for share in (0.5, 1.0):
        config = dataclasses.replace(PLAIN, stale_plan=share)
        out = corrupt_long(*rest, config, keyed_generator(0, 1), donor)
        plain = corrupt_long(*rest, PLAIN, keyed_generator(0, 1))
        assert torch.equal(out.target, plain.target)
        assert torch.equal(out.weight, plain.weight), "what is stale must be scored, so it counts"
        past, code = place() < executed[:, None], out.target < WORDS.codes
        shown = (out.tokens < WORDS.codes) & code
        stale = shown & (out.tokens == donor)
        assert not stale[past].any()
        assert not stale[executed == 0].any(), "the first plan was not made before anything"
        open_rows = (shown & ~past & (executed > 0)[:, None]).any(1)
        rows = stale.any(1)[open_rows]
        assert rows.float().mean() == pytest.approx(share, abs=0.1)
    assert torch.equal(stale, shown & ~past & (executed > 0)[:, None]), "all of it, if its share is 1"


def test_pending_tokens_are_masked_by_the_schedule_and_at_least_one_is():
    out, (_, _, executed, _) = corrupt()
    pending = (place() >= executed[:, None]) & (out.target != WORDS.pad)
    hidden = (out.tokens == WORDS.mask) & pending
    assert (hidden.sum(1) >= 1).all()
    ratio = (hidden.sum(1) / pending.sum(1))[pending.sum(1) > 5]
    assert 0.55 < ratio.mean() < 0.75  # the mean of cos(pi r / 2) is 2 / pi
    assert ratio.max() == 1


def test_perturbed_tokens_are_other_codes_never_specials():
    tokens = torch.randint(WORDS.predicted, (BATCH, SIZE), generator=keyed_generator(1))
    out = perturb(tokens, 0.5, WORDS, keyed_generator(2))
    code = tokens < WORDS.codes
    assert torch.equal(out[~code], tokens[~code])
    assert (out[code] < WORDS.codes).all()
    assert 0.45 < (out != tokens)[code].float().mean() < 0.55
    assert torch.equal(perturb(tokens, 0.0, WORDS, keyed_generator(2)), tokens)


def test_weights_by_where_a_token_stands():
    out, (_, _, executed, _) = corrupt(near_weight=5.0, prefix_weight=0.1)
    past = place() < executed[:, None]
    near = ~past & (place() < executed[:, None] + NEAR)
    valid = out.target != WORDS.pad
    assert (out.weight[past & valid] == torch.tensor(0.1)).all()
    assert (out.weight[near & valid] == 5).all()
    assert (out.weight[~past & ~near & valid] == 1).all()


def test_short_windows_are_masked_but_their_targets_are_whole():
    tokens = sample()[0]
    out = corrupt_short(tokens, WORDS, dataclasses.replace(PLAIN, perturb=0.2), keyed_generator(3))
    assert torch.equal(out.target, tokens)
    assert (out.weight == 1).all()
    hidden = out.tokens == WORDS.mask
    assert (hidden.sum(1) >= 1).all()
    swapped = (out.tokens != tokens)[~hidden].float().mean()
    assert 0.15 < swapped < 0.25


def test_the_same_generator_state_gives_the_same_corruption():
    for a, b in zip(corrupt(3, perturb=0.3, end=True)[0], corrupt(3, perturb=0.3, end=True)[0], strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(corrupt(3)[0].tokens, corrupt(4)[0].tokens)


def test_choose_takes_the_share_of_the_candidates_only():
    candidates = torch.rand(BATCH, SIZE, generator=keyed_generator(6)) < 0.5
    candidates[0] = False
    ratio = torch.rand(BATCH, generator=keyed_generator(7))
    chosen = choose(candidates, ratio, keyed_generator(8))
    assert not (chosen & ~candidates).any()
    total = candidates.sum(1)
    expected = torch.minimum((ratio * total).round().long().clamp_min(1), total)
    assert torch.equal(chosen.sum(1), expected)


def test_a_run_hides_the_next_tokens_and_as_many_as_else():
    out, (_, _, executed, _) = corrupt(5, run=1.0)
    hidden = out.tokens == WORDS.mask
    first = hidden.long().argmax(1)
    assert torch.equal(first, executed), "from now on"
    count = hidden.sum(1)
    assert torch.equal(hidden, (place() >= executed[:, None]) & (place() < (executed + count)[:, None])), "in one run"
    candidates = (place() >= 3) & torch.ones(BATCH, SIZE, dtype=torch.bool)
    ratio = torch.rand(BATCH, generator=keyed_generator(7))
    counts = [choose(candidates, ratio, keyed_generator(8), share).sum(1) for share in (0.0, 1.0)]
    assert torch.equal(*counts)
    some = choose(candidates, torch.full((BATCH,), 0.5), keyed_generator(9), 0.5)
    runs = (some[:, 3:].long().diff(dim=1) <= 0).all(1)
    assert 0.3 < float(runs.float().mean()) < 0.75


def test_close_leaves_a_full_sequence_without_end():
    tokens = torch.zeros(2, 4, dtype=torch.long)
    assert close(tokens, torch.tensor([4, 2]), WORDS).tolist() == [[0, 0, 0, 0], [0, 0, WORDS.end, WORDS.pad]]
