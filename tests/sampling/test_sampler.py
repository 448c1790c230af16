from __future__ import annotations

import pytest
import torch

from mgp.data.demonstrations import keyed_generator
from mgp.model.transformer import at
from mgp.sampling.sampler import KNOWN, confidence_of, draw, gumbel_max, likeness, lowest, refine
from mgp.sampling.schedule import mask_counts, training_ratio

CODES, MASK = 12, 14


def generators(*seeds: int) -> list[torch.Generator]:
    return [keyed_generator(seed) for seed in seeds]


class Recorder:
    """Answers with random logits that depend on the tokens of the row alone, and keeps what it was asked."""

    def __init__(self, seed: int = 0, sharpness: float = 2.0):
        self.table = sharpness * torch.randn(MASK + 1, 40, CODES, generator=keyed_generator(seed))
        self.asked: list[torch.Tensor] = []

    def __call__(self, tokens: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        self.asked.append(tokens.clone())
        own = torch.stack([self.table[row, torch.arange(len(row))] for row in tokens])  # (B, N, V)
        context = (tokens * torch.arange(1, tokens.shape[1] + 1)).sum(1) % 7
        return at(own + context[:, None, None] * self.table[0, : tokens.shape[1]], wanted)

    @property
    def masked(self) -> list[list[int]]:
        """Masked tokens of each row at each round."""
        return [(tokens == MASK).sum(1).tolist() for tokens in self.asked]


def everything(batch: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((batch, size), MASK), torch.ones(batch, size, dtype=torch.bool)


@pytest.mark.parametrize(
    ("rounds", "expected"), [(1, [10]), (2, [10, 7]), (3, [10, 8, 5]), (4, [10, 9, 7, 3]), (5, [10, 9, 8, 5, 3])]
)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_masked_counts_follow_the_cosine_schedule_at_every_round(rounds, expected, temperature):
    recorder = Recorder()
    out = refine(recorder, *everything(1, 10), MASK, rounds, temperature, generators(0))
    assert [row[0] for row in recorder.masked] == expected
    assert out.rounds.sum() == sum(expected)
    assert (out.tokens < CODES).all()


def test_masked_counts_are_of_each_rows_own_editable_tokens():
    tokens = torch.randint(CODES, (4, 10), generator=keyed_generator(1))
    masked = torch.zeros(4, 10, dtype=torch.bool)
    masked[0, 3:] = True  # 7
    masked[1, ::2] = True  # 5
    masked[2, 4] = True  # 1, and none in row 3
    recorder = Recorder()
    refine(recorder, tokens, masked, MASK, 2, 1.0, generators(0, 1, 2, 3))
    assert recorder.masked == [[7, 5, 1, 0], [4, 3, 0, 0]]
    assert mask_counts(masked, 2).tolist() == [[7, 4], [5, 3], [1, 0], [0, 0]]


def test_the_second_round_masks_the_least_confident_tokens():
    sure = torch.tensor([5.0, 1.0, 4.0, 0.5, 3.0, 2.0, 6.0])  # logit of code 3 at each position; the rest are 0
    logits = torch.zeros(1, 7, CODES)
    logits[0, :, 3] = sure
    asked = []

    def answer(tokens, wanted):
        asked.append(tokens.clone())
        return at(logits, wanted)

    out = refine(answer, *everything(1, 7), MASK, 2, 0.0, generators(0))
    assert set((asked[1] == MASK)[0].nonzero().flatten().tolist()) == {1, 3, 4, 5}
    assert out.rounds[0].tolist() == [1, 2, 1, 2, 2, 2, 1]
    torch.testing.assert_close(out.confidence[0], logits.softmax(-1)[0, :, 3])


def test_temperature_zero_is_the_argmax_and_uses_no_random_numbers():
    logits = torch.randn(3, 9, CODES, generator=keyed_generator(5))
    used = generators(1, 2, 3)
    before = [g.get_state() for g in used]
    assert torch.equal(gumbel_max(logits, 0.0, used), logits.argmax(-1))
    assert all(torch.equal(g.get_state(), state) for g, state in zip(used, before, strict=True))
    runs = [refine(Recorder(), *everything(3, 9), MASK, 3, 0.0, generators(s, s, s)) for s in (0, 99)]
    assert torch.equal(runs[0].tokens, runs[1].tokens)
    assert torch.equal(runs[0].confidence, runs[1].confidence)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_gumbel_max_follows_the_softmax_distribution(temperature):
    draws, planted = 40_000, torch.tensor([2.0, 1.0, 0.0, -1.0, 0.5])
    tokens = gumbel_max(planted.expand(1, draws, 5), temperature, generators(3))
    expected = (planted / temperature).softmax(0) * draws
    chi2 = ((tokens.flatten().bincount(minlength=5) - expected) ** 2 / expected).sum()
    assert chi2 < 18.5  # 4 degrees of freedom, p = .001


def test_tokens_are_drawn_from_the_likeliest_each_row_by_its_own_generator():
    logits = torch.randn(3, 20)
    allowed = logits.topk(5).indices
    rows = [draw(logits, 1.0, [keyed_generator(s, i) for i in range(3)], top=5) for s in range(100)]
    for row, good in zip(torch.stack(rows, 1), allowed, strict=True):
        assert set(row.tolist()) == set(good.tolist())
    alone = [draw(logits[i : i + 1], 1.0, [keyed_generator(7, i)], top=5)[0] for i in range(3)]
    assert torch.stack(alone).equal(draw(logits, 1.0, [keyed_generator(7, i) for i in range(3)], top=5))
    assert draw(logits, 0.0, [], top=5).equal(logits.argmax(-1))


def test_draws_differ_by_position_round_and_seed():
    flat = lambda tokens, wanted: torch.zeros(*wanted.shape, CODES)  # noqa: E731
    one, other = (refine(flat, *everything(1, 30), MASK, 1, 1.0, generators(seed)).tokens for seed in (0, 1))
    assert len(one.unique()) > CODES // 2
    assert not torch.equal(one, other)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_a_batch_equals_its_rows_sampled_alone(temperature):
    tokens, masked = everything(5, 11)
    masked[2, :4] = False
    tokens = torch.where(masked, tokens, 7)
    together = refine(Recorder(), tokens, masked, MASK, 3, temperature, generators(*range(5)))
    for row in range(5):
        one = slice(row, row + 1)
        alone = refine(Recorder(), tokens[one], masked[one], MASK, 3, temperature, generators(row))
        for a, b in zip(alone, together, strict=True):
            assert torch.equal(a[0], b[row])


def test_forbidden_tokens_are_never_drawn_and_get_no_probability():
    eager = torch.zeros(2, 50, CODES)
    eager[..., [2, CODES - 1]] = 8.0
    for temperature in (0.0, 1.0, 5.0):
        answer = lambda tokens, wanted: at(eager, wanted)  # noqa: E731
        out = refine(answer, *everything(2, 50), MASK, 2, temperature, generators(0, 1), (2, CODES - 1))
        assert not ((out.tokens == 2) | (out.tokens == CODES - 1)).any()
        torch.testing.assert_close(out.confidence, torch.full((2, 50), 1 / (CODES - 2)))
    assert (eager[..., 2] == 8.0).all()  # the logits were not changed in place


def test_given_tokens_never_change_and_inputs_stay_as_they_were():
    tokens = torch.randint(CODES, (6, 20), generator=keyed_generator(2))
    masked = torch.rand(6, 20, generator=keyed_generator(3)) < 0.5
    before = tokens.clone(), masked.clone()
    out = refine(Recorder(), tokens, masked, MASK, 4, 1.0, generators(*range(6)))
    assert torch.equal(out.tokens[~masked], tokens[~masked])
    assert (out.confidence[~masked] == KNOWN).all()
    assert (out.confidence[masked] <= 1).all()
    assert (out.rounds[~masked] == 0).all()
    assert (out.rounds[masked] >= 1).all()
    assert torch.equal(tokens, before[0])
    assert torch.equal(masked, before[1])
    assert not torch.equal(out.tokens, tokens)  # so it is a copy


def test_lowest_is_right_whatever_is_known_and_with_ties():
    random = keyed_generator(4)
    for _ in range(50):
        confidence = torch.randint(4, (6, 9), generator=random) / 4  # many ties
        confidence = torch.where(torch.rand(6, 9, generator=random) < 0.4, KNOWN, confidence)
        count = torch.randint(10, (6,), generator=random)
        chosen = lowest(confidence, count)
        for row in range(6):
            editable = confidence[row] < KNOWN
            assert chosen[row].sum() == min(int(count[row]), int(editable.sum()))
            assert not (chosen[row] & ~editable).any()
            kept = editable & ~chosen[row]
            if chosen[row].any() and kept.any():
                assert confidence[row][chosen[row]].max() <= confidence[row][kept].min()


def test_lowest_with_all_or_nothing_known():
    assert not lowest(torch.full((1, 4), KNOWN), torch.tensor([3])).any()
    assert lowest(torch.zeros(1, 4), torch.tensor([4])).all()
    assert lowest(torch.zeros(1, 4), torch.tensor([2])).sum() == 2  # ties do not mask more than asked


def test_confidence_is_of_the_given_tokens_and_zero_for_those_without_logits():
    logits = torch.tensor([[[0.0, 2.0, 1.0]] * 4])
    share = logits.softmax(-1)[0, 0]
    found = confidence_of(logits, torch.tensor([[0, 1, 2, 5]]))
    torch.testing.assert_close(found, torch.tensor([[share[0], share[1], share[2], 0.0]]))


def test_near_duplicates_share_a_confidence():
    """Codes 0 and 1 are one and the same, 2 is near them, 3 is far from all."""
    codes = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.1, 0.0], [9.0, 9.0]])
    probability = torch.tensor([0.3, 0.3, 0.2, 0.15, 0.05])  # the last is [END]'s
    logits = probability.log().expand(1, 6, 5)
    tokens = torch.tensor([[0, 1, 2, 3, 4, 5]])
    alone = confidence_of(logits, tokens, likeness(codes, 0.0))
    torch.testing.assert_close(alone[0], torch.tensor([0.3, 0.3, 0.2, 0.15, 0.05, 0.0]))
    shared = confidence_of(logits, tokens, likeness(codes, 1e-2))[0]
    assert shared[0] == shared[1] > 0.79, "of all three"
    torch.testing.assert_close(shared[3:], torch.tensor([0.15, 0.05, 0.0]), msg="has nobody near it, no code, no logit")


def test_training_ratios_span_everything():
    ratio = training_ratio(torch.linspace(0, 1, 101))
    assert ratio[0] == 1
    assert ratio[-1].abs() < 1e-6
    assert (ratio.diff() < 0).all()
