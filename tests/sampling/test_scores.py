"""The scores of ATR on planted logits: which tokens each of them would have rewritten, and what it asks."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
import torch
from test_long import SIZE, WORDS, Planted, planner, seen, wants

from mgp.data.demonstrations import keyed_generator
from mgp.errors import ConfigError
from mgp.model.transformer import at
from mgp.sampling.config import SamplingConfig
from mgp.sampling.scores import FLOOR, SCORES


class Fitting:
    """A network that wants code 5 at the stale places once the scene has changed, and else what its neighbours are.

    A token is as likely as the share of tokens in view that are alike: it reads the plan, and forgets the past.
    """

    def __init__(self, stale: list[int]):
        self.stale, self.changed = stale, False
        self.asked: list[torch.Tensor] = []

    def __call__(self, tokens: torch.Tensor, wanted: torch.Tensor, executed: torch.Tensor) -> torch.Tensor:
        self.asked.append(tokens.clone())
        share = torch.full((len(tokens), SIZE, WORDS.predicted), 0.02)
        in_view = tokens < WORDS.codes
        for row, (line, known) in enumerate(zip(tokens, in_view, strict=True)):
            if known.any():
                share[row, :, line[known].mode().values] = 0.8
        if self.changed:
            share[:, self.stale] = 0.02
            share[:, self.stale, 5], share[:, self.stale, 2] = 0.5, 0.3  # surer of it than of what nothing tells
        return at(share.log(), wanted)


def test_every_score_can_be_chosen():
    assert set(get_args(get_type_hints(SamplingConfig)["score"])) == set(SCORES)


def masked(plan) -> list[int]:
    return (plan.log[-1]["masked"][0] > 0).nonzero()[0].tolist()


def test_change_rewrites_what_fell_and_not_what_was_unsure_all_along():
    shares = torch.tensor([0.9, 0.9, 0.9, 0.3, 0.3, 0.3, 0.9, 0.9, 0.9, 0.9])  # 3 to 5 nothing present can tell
    now = torch.where(torch.tensor([False] * 7 + [True] * 3), 0.5, shares)  # and 7 to 9 have become less likely
    rewritten = {}
    for score in ("posterior", "change"):
        plan, network = planner(score=score, mask_ratio=0.375, refine_steps=1), Planted(wants(2, shares))
        plan.step(network, seen(), 0)
        network.logits = wants(2, now)
        plan.step(network, seen(), 2)
        rewritten[score] = masked(plan)
    assert rewritten == {"posterior": [3, 4, 5], "change": [7, 8, 9]}


def test_change_is_the_fall_since_the_last_look_at_the_plan_as_it_was_left():
    plan, network = planner(score="change", mask_ratio=0.5, refine_steps=1), Planted(wants(2, 0.8))
    plan.step(network, seen(), 0)
    said = plan.looked.clone()
    network.logits = wants(2, torch.linspace(0.9, 0.5, SIZE))
    edit = plan.what_if(network, seen(), 2)
    torch.testing.assert_close(edit.ranking[0, 2:], ((edit.scores + FLOOR) / (said + FLOOR))[0, 2:])
    assert torch.equal(plan.looked, said), "what_if leaves no trace"
    plan.step(network, seen(), 2)
    assert masked(plan) == [6, 7, 8, 9]
    plan.step(network, seen(), 3)  # the same once more: nothing has changed since
    torch.testing.assert_close(plan.what_if(network, seen(), 3).ranking[0, 3:], torch.ones(SIZE - 3))


@pytest.mark.parametrize(
    ("score", "rows"), [("posterior", [1, 1, 1]), ("change", [1, 1, 1, 1]), ("leave-out", [2, 1, 1])]
)
def test_each_score_is_one_pass_and_a_look_that_is_compared_is_one_more(score, rows):
    plan, network = planner(score=score, window=4), Fitting([])
    plan.step(network, seen(), 0)
    network.asked = []
    plan.step(network, seen(), 2)
    assert [len(tokens) for tokens in network.asked] == rows  # the score, two rounds of refinement, maybe the look


def test_a_planner_that_was_not_told_to_compare_says_so():
    plan, network = planner(), Planted(wants(1))
    plan.step(network, seen(), 0)
    with pytest.raises(ConfigError, match="needs the looks before"):
        plan.what_if(network, seen(), 2, score="change")
    plan = planner()
    plan.compares = True
    plan.step(network, seen(), 0)
    assert plan.what_if(network, seen(), 2, score="change") is not None


def test_leave_out_finds_the_stale_tokens_where_without_the_plan_every_other_looks_less_sure():
    """What the others should be is known from the plan alone."""
    stale, rewritten = [4, 5], {}
    for name, options in {"leave-out": {"score": "leave-out", "window": 2}, "hidden": {}}.items():
        plan, network = planner(mask_ratio=0.25, refine_steps=1, **options), Fitting(stale)
        plan.step(network, seen(), 0)
        plan.tokens[:] = 2
        network.changed, network.asked = True, []
        edit = plan.what_if(network, seen(), 0)
        rewritten[name] = (edit.rounds[0] > 0).nonzero().flatten().tolist()
        if name == "leave-out":
            first = network.asked[0]
            assert first.shape == (5, SIZE), "one pass, a row for each window"
            assert [(row == WORDS.mask).nonzero().flatten().tolist() for row in first] == [
                [0, 1], [2, 3], [4, 5], [6, 7], [8, 9],
            ]  # fmt: skip
    assert rewritten["leave-out"] == stale
    assert not set(stale) & set(rewritten["hidden"])


def test_windows_begin_at_the_first_pending_token_and_the_last_may_be_shorter():
    plan, network = planner(score="leave-out", window=3, refine_steps=1), Fitting([])
    plan.step(network, seen(), 0)
    network.asked = []
    plan.step(network, seen(), 2)
    hidden = [(row == WORDS.mask).nonzero().flatten().tolist() for row in network.asked[0]]
    assert hidden == [[2, 3, 4], [5, 6, 7], [8, 9]]


@pytest.mark.parametrize("score", ["change", "leave-out"])
def test_a_batch_equals_its_rows_alone(score):
    random = keyed_generator(5)
    arrivals = torch.rand(5, 3, generator=random) < 0.6
    arrivals[0] = True
    logits = torch.randn(5, 3, SIZE, WORDS.predicted, generator=random)

    def run(rows: list[int]) -> torch.Tensor:
        plan = planner(seeds=tuple(rows), temperature=1.0, score=score, window=4)
        for step in range(5):
            known = logits[step][rows][arrivals[step][rows]]

            def network(tokens, wanted, executed, known=known):
                return at(known.repeat_interleave(len(tokens) // len(known), 0), wanted)

            plan.step(network, arrivals[step][rows], 2 * step)
        return plan.tokens

    together = run([0, 1, 2])
    for row in range(3):
        assert torch.equal(run([row])[0], together[row])


def test_a_token_above_the_bar_stays_and_a_plan_of_them_costs_one_look():
    plan, network = planner(keep_above=0.5, mask_ratio=1.0), Planted(wants(2, 0.9))
    plan.step(network, seen(), 0)
    share = torch.tensor([0.9] * 5 + [0.2, 0.9, 0.3, 0.9, 0.9])
    network.logits = wants(2, share)
    plan.step(network, seen(), 2)
    assert masked(plan) == [5, 7]
    network.logits, network.asked = wants(2, 0.9), []
    before = [generator.get_state() for generator in plan.generators]
    plan.step(network, seen(), 3)
    assert masked(plan) == []
    assert len(network.asked) == 1
    assert all(torch.equal(a, g.get_state()) for a, g in zip(before, plan.generators, strict=True))
    everything = planner(keep_above=0.5, variant="no-sm")
    network.logits = wants(2, 0.9)
    for executed in (0, 2):
        everything.step(network, seen(), executed)
    assert masked(everything) == list(range(2, SIZE)), "w/o SM keeps nothing"


def test_a_refused_plan_takes_its_look_with_it():
    plan, network = planner(score="change", mask_ratio=1.0), Planted(wants(2, 0.9))
    plan.step(network, seen(), 0)
    before = plan.looked.clone()
    network.logits = wants(5, 0.6)
    plan.step(network, seen(), 1)
    assert not torch.equal(plan.looked, before)
    plan.keep(SIZE)
    assert torch.equal(plan.looked, before)
