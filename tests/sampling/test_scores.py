"""The scores of ATR on planted logits: which tokens each of them would have rewritten, and what it asks."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
import torch
from test_long import SIZE, WORDS, planner, seen

from mgp.data.demonstrations import keyed_generator
from mgp.model.transformer import at
from mgp.sampling.config import SamplingConfig
from mgp.sampling.scores import SCORES


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


@pytest.mark.parametrize(("score", "rows"), [("posterior", [1, 1, 1]), ("leave-out", [2, 1, 1])])
def test_each_score_is_one_pass(score, rows):
    plan, network = planner(score=score, window=4), Fitting([])
    plan.step(network, seen(), 0)
    network.asked = []
    plan.step(network, seen(), 2)
    assert [len(tokens) for tokens in network.asked] == rows  # the score, and two rounds of refinement


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


def test_a_batch_equals_its_rows_alone():
    random = keyed_generator(5)
    arrivals = torch.rand(5, 3, generator=random) < 0.6
    arrivals[0] = True
    logits = torch.randn(5, 3, SIZE, WORDS.predicted, generator=random)

    def run(rows: list[int]) -> torch.Tensor:
        plan = planner(seeds=tuple(rows), temperature=1.0, score="leave-out", window=4)
        for step in range(5):
            known = logits[step][rows][arrivals[step][rows]]

            def network(tokens, wanted, executed, known=known):
                return at(known.repeat_interleave(len(tokens) // len(known), 0), wanted)

            plan.step(network, arrivals[step][rows], 2 * step)
        return plan.tokens

    together = run([0, 1, 2])
    for row in range(3):
        assert torch.equal(run([row])[0], together[row])
