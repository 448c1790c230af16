"""MGP-Long's planner on planted logits: what a network would say is written into the test."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from mgp.data.demonstrations import keyed_generator
from mgp.errors import ObservationError, UnknownNameError
from mgp.model.transformer import Vocabulary, at
from mgp.sampling.config import SamplingConfig
from mgp.sampling.long import LongPlanner
from mgp.sampling.sampler import likeness

WORDS = Vocabulary(8)
SIZE = 10
BASE = SamplingConfig(execution_horizon=4, refine_steps=2)


class Planted:
    """A network that says what it was told: logits (B, N, V), the same for every call until they are replaced."""

    def __init__(self, logits: torch.Tensor):
        self.logits = logits
        self.asked: list[torch.Tensor] = []
        self.executed: list[torch.Tensor] = []
        self.rows: torch.Tensor | None = None  # the observed rows, which alone are asked about

    def __call__(self, tokens: torch.Tensor, wanted: torch.Tensor, executed: torch.Tensor) -> torch.Tensor:
        self.asked.append(tokens.clone())
        self.executed.append(executed.clone())
        return at(self.logits if self.rows is None else self.logits[self.rows], wanted)


def wants(codes: torch.Tensor | int, share: torch.Tensor | float = 0.9, batch: int = 1) -> torch.Tensor:
    """Logits (B, N, V) that give each code `share`, and the rest to all others alike."""
    wanted = torch.as_tensor(codes).expand(batch, SIZE)
    share = torch.as_tensor(share).expand(batch, SIZE)
    others = ((1 - share) / (WORDS.predicted - 1)).log()[..., None].expand(-1, -1, WORDS.predicted)
    return others.scatter(-1, wanted[..., None], share.log()[..., None])


def planner(batch: int = 1, seeds: tuple[int, ...] | None = None, **changes) -> LongPlanner:
    config = dataclasses.replace(BASE, **changes)
    return LongPlanner(config, WORDS, SIZE, [keyed_generator(seed) for seed in seeds or range(batch)])


def seen(*rows: bool) -> torch.Tensor:
    return torch.tensor(rows or (True,))


@pytest.mark.parametrize("see_pending", [False, True])
def test_posterior_confidence_scores_the_token_in_the_plan_not_a_fresh_argmax(see_pending):
    plan, network = planner(mask_ratio=0.5, see_pending=see_pending), Planted(wants(2))
    plan.step(network, seen(), 0)
    # Now the network prefers code 5 everywhere; what it still gives to the standing 2 differs by position,
    # and the order of the preferred code's share is just the other way round.
    standing = torch.tensor([0.3, 0.3, 0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40])
    share = torch.full((1, SIZE, WORDS.predicted), 0.01)
    share[0, :, 2] = standing
    share[0, :, 5] = 1 - standing - 0.01 * (WORDS.predicted - 2)
    network.logits, network.asked = share.log(), []
    tokens = plan.step(network, seen(), 2)
    assert network.asked[0][0].tolist() == [2, 2] + [2 if see_pending else WORDS.mask] * 8, "what scoring looks at"
    masked = plan.log[-1]["masked"][0] > 0
    assert masked.nonzero()[0].tolist() == [2, 3, 4, 5]  # the four least sure of eight pending
    assert tokens[0].tolist() == [2, 2, 5, 5, 5, 5, 2, 2, 2, 2]
    code = share[0, :, : WORDS.codes] / share[0, :, : WORDS.codes].sum(-1, keepdim=True)  # [END] may not stand
    now = torch.cat([code[2:6, 5], code[6:, 2]])
    np.testing.assert_allclose(plan.log[-1]["confidence"][0][2:], now, rtol=1e-5)


def test_the_executed_prefix_is_byte_identical_over_a_whole_episode():
    random = keyed_generator(8)
    plan = planner(batch=3, temperature=1.0, mask_ratio=0.9)
    network, history = Planted(torch.zeros(3, SIZE, WORDS.predicted)), []
    for step in range(SIZE + 2):
        network.logits = 9 * torch.randn(3, SIZE, WORDS.predicted, generator=random)  # it changes its mind every time
        handed = plan.step(network, seen(True, True, True), step)
        history.append(handed.clone())
        handed.fill_(7)  # what was handed out is not the plan itself
    for step, tokens in enumerate(history[1:], start=1):
        done = min(step, SIZE)
        assert torch.equal(tokens[:, :done], history[-1][:, :done])
        assert torch.equal(tokens[:, :done], history[step - 1][:, :done])
    assert not torch.equal(history[0], history[-1])
    for entry, tokens in zip(plan.log, history, strict=True):
        np.testing.assert_array_equal(entry["tokens"], tokens)


@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.7, 1.0])
def test_exactly_the_share_of_the_pending_tokens_is_masked_the_least_sure_ones(ratio):
    random = keyed_generator(1)
    plan, network = planner(batch=2, mask_ratio=ratio), Planted(wants(3, batch=2))
    plan.step(network, seen(True, True), 0)
    for executed in range(1, SIZE):
        standing = plan.tokens.clone()
        network.logits = torch.randn(2, SIZE, WORDS.predicted, generator=random)
        sure = network.logits[..., : WORDS.codes].softmax(-1).gather(-1, standing[..., None]).squeeze(-1)[:, executed:]
        plan.step(network, seen(True, True), executed)
        masked = torch.from_numpy(plan.log[-1]["masked"]) > 0
        assert not masked[:, :executed].any()
        for row in range(2):
            wanted = round(ratio * (SIZE - executed))
            assert set((masked[row, executed:]).nonzero().flatten().tolist()) == set(
                sure[row].argsort()[:wanted].tolist()
            )


def test_the_share_is_rounded_as_python_does():
    for size in range(1, 60):
        plan = LongPlanner(BASE, WORDS, size, [keyed_generator(0)])
        network = lambda tokens, wanted, executed: torch.zeros(*wanted.shape, WORDS.predicted)  # noqa: E731
        plan.step(network, seen(), 0)  # nothing is executed, so all are pending
        plan.step(network, seen(), 0)
        assert (plan.log[-1]["masked"] > 0).sum() == round(0.7 * size)


def test_replanning_follows_the_schedule_of_refinement():
    plan, network = planner(mask_ratio=0.7, refine_steps=3, see_pending=True), Planted(wants(1))
    plan.step(network, seen(), 0)
    network.asked = []
    plan.step(network, seen(), 0)
    hidden = [int((tokens == WORDS.mask).sum()) for tokens in network.asked]
    assert hidden == [0, 7, 6, 3]  # scoring, then cos(0), cos(pi/6), cos(pi/3) of 7
    assert plan.log[-1]["masked"].sum() == 7 + 6 + 3


def test_the_network_is_told_how_many_tokens_are_executed():
    plan, network = planner(), Planted(wants(1))
    for executed in (0, 4, 8):
        plan.step(network, seen(), executed)
    assert {int(count) for count in network.executed} == {0, 4, 8}
    assert [int(entry["executed"][0]) for entry in plan.log] == [0, 4, 8]


def test_without_score_based_masking_everything_pending_is_rewritten():
    plan, network = planner(variant="no-sm"), Planted(wants(1))
    plan.step(network, seen(), 0)
    network.logits = wants(6, 0.5)
    assert plan.step(network, seen(), 4)[0].tolist() == [1] * 4 + [6] * 6
    assert ((plan.log[-1]["masked"][0] > 0) == ([False] * 4 + [True] * 6)).all()


def test_full_never_asks_the_network_again():
    plan, network = planner(variant="full"), Planted(wants(1))
    first = plan.step(network, seen(), 0)
    calls = len(network.asked)
    network.logits = wants(6)
    for executed in (4, 8, 12):
        assert torch.equal(plan.step(network, seen(), executed), first)
    assert len(network.asked) == calls == BASE.refine_steps
    assert len(plan.log) == 4
    assert all((entry["masked"] == 0).all() for entry in plan.log[1:])


def test_a_missing_observation_leaves_its_row_alone_while_others_replan():
    plan, network = planner(batch=3, mask_ratio=1.0), Planted(wants(1, batch=3))
    plan.step(network, seen(True, True, True), 0)
    before = plan.log[-1]
    network.logits, network.rows, network.asked = wants(6, 0.8, batch=3), seen(True, False, True), []
    tokens = plan.step(network, network.rows, 2)
    assert tokens.tolist() == [[1, 1] + [6] * 8, [1] * SIZE, [1, 1] + [6] * 8]
    assert all(len(asked) == 2 for asked in network.asked), "the network is not asked about the missing row"
    after = plan.log[-1]
    np.testing.assert_array_equal(after["confidence"][1], before["confidence"][1])
    assert (after["masked"][1] == 0).all()
    assert (after["masked"][[0, 2], 2:] > 0).all()
    network.asked = []
    nobody = plan.step(network, seen(False, False, False), 4)
    assert torch.equal(nobody, tokens)
    assert network.asked == []
    assert plan.log[-1]["executed"].tolist() == [4, 4, 4], "time goes on without observations"


def test_the_first_observation_must_be_there():
    with pytest.raises(ObservationError, match="first observation"):
        planner(batch=2).step(Planted(wants(1, batch=2)), seen(True, False), 0)


@pytest.mark.parametrize("scoring", ["atr", "random", "reuse"])
def test_a_batch_equals_its_rows_alone_also_with_missing_observations(scoring):
    random = keyed_generator(3)
    arrivals = torch.rand(5, 3, generator=random) < 0.6
    arrivals[0] = True
    logits = torch.randn(5, 3, SIZE, WORDS.predicted, generator=random)

    def run(rows: list[int]) -> np.ndarray:
        plan = planner(seeds=tuple(rows), temperature=1.0, scoring=scoring)
        for step in range(5):
            network = Planted(logits[step][rows])
            network.rows = arrivals[step][rows]
            plan.step(network, network.rows, 2 * step)
        return np.stack([entry["tokens"] for entry in plan.log], 1)

    together = run([0, 1, 2])
    for row in range(3):
        np.testing.assert_array_equal(run([row])[0], together[row])


def test_reuse_ranks_by_the_old_confidence_and_asks_no_score():
    old = torch.linspace(0.3, 0.9, SIZE).flip(0)
    plan, network = planner(scoring="reuse", mask_ratio=0.5, refine_steps=1), Planted(wants(1, old))
    plan.step(network, seen(), 0)
    network.logits, network.asked = wants(6, old.flip(0)), []
    plan.step(network, seen(), 2)
    assert len(network.asked) == 1, "only the refinement, no scoring"
    assert (plan.log[-1]["masked"][0] > 0).nonzero()[0].tolist() == [6, 7, 8, 9]


def test_inverse_masks_the_surest():
    plan, network = planner(scoring="inverse", mask_ratio=0.5), Planted(wants(1))
    plan.step(network, seen(), 0)
    network.logits = wants(1, torch.linspace(0.3, 0.9, SIZE))
    plan.step(network, seen(), 2)
    assert (plan.log[-1]["masked"][0] > 0).nonzero()[0].tolist() == [6, 7, 8, 9]


def test_what_if_is_the_edit_that_would_come_and_leaves_no_trace():
    plan, network = planner(batch=2, mask_ratio=0.5, temperature=1.0), Planted(wants(1, batch=2))
    assert plan.what_if(network, seen(True, True), 0, scoring="inverse") is None, "there is no plan yet"
    plan.step(network, seen(True, True), 0)
    network.logits = wants(torch.tensor([1] * 6 + [4] * 4), torch.linspace(0.3, 0.9, SIZE), batch=2)
    before = plan.tokens.clone(), plan.confidence.clone(), len(plan.log), [g.get_state() for g in plan.generators]
    edits = {name: plan.what_if(network, seen(True, True), 2, scoring=name) for name in ("atr", "inverse")}
    after = plan.tokens, plan.confidence, len(plan.log), [g.get_state() for g in plan.generators]
    assert all(torch.equal(a, b) for a, b in zip((*before[:2], *before[3]), (*after[:2], *after[3]), strict=True))
    assert before[2] == after[2]
    assert plan.executed == 0
    assert plan.config.scoring == "atr"
    masked = {name: edit.rounds > 0 for name, edit in edits.items()}
    assert torch.equal(masked["atr"].sum(1), masked["inverse"].sum(1)), "as many, but others"
    assert not (masked["atr"] & masked["inverse"]).any()
    tokens = plan.step(network, seen(True, True), 2)  # now it comes to pass
    assert torch.equal(tokens, edits["atr"].tokens)
    assert torch.equal(before[0], edits["inverse"].before)
    np.testing.assert_array_equal(plan.log[-1]["masked"], edits["atr"].rounds)


def test_what_if_of_the_observed_rows_alone_and_not_past_the_horizon():
    plan, network = planner(batch=2), Planted(wants(1, batch=2))
    plan.step(network, seen(True, True), 0)
    network.rows = seen(False, True)
    assert plan.what_if(network, network.rows, 4, scoring="inverse").tokens.shape == (1, SIZE)
    assert plan.what_if(network, seen(False, False), 4) is None
    assert plan.what_if(network, seen(True, True), SIZE) is None


def test_what_if_knows_that_full_never_edits_and_answers_unknown_options():
    plan, network = planner(), Planted(wants(1))
    with pytest.raises(UnknownNameError, match="Did you mean 'scoring'"):
        plan.what_if(network, seen(), 0, scorin="inverse")
    plan.step(network, seen(), 0)
    assert plan.what_if(network, seen(), 2) is not None
    assert plan.what_if(network, seen(), 2, variant="full") is None
    full = planner(variant="full")
    full.step(network, seen(), 0)
    assert full.what_if(network, seen(), 2) is None


def test_random_masks_as_many_but_not_by_confidence():
    chosen = set()
    for seed in range(20):
        plan, network = planner(seeds=(seed,), scoring="random", mask_ratio=0.5), Planted(wants(1))
        plan.step(network, seen(), 0)
        network.logits = wants(1, torch.linspace(0.3, 0.9, SIZE))
        plan.step(network, seen(), 2)
        masked = plan.log[-1]["masked"][0] > 0
        assert masked.sum() == 4
        assert not masked[:2].any()
        chosen.add(tuple(masked.nonzero()[0].tolist()))
    assert len(chosen) > 5
    assert {position for choice in chosen for position in choice} == set(range(2, SIZE))


def test_end_is_never_drawn():
    for temperature in (0.0, 1.0):
        plan, network = planner(temperature=temperature), Planted(wants(WORDS.end))
        for executed in (0, 4):
            assert (plan.step(network, seen(), executed) < WORDS.codes).all()


def test_past_its_horizon_the_plan_rests():
    plan, network = planner(), Planted(wants(1))
    for executed in (0, 4, 8):
        last = plan.step(network, seen(), executed)
    calls = len(network.asked)
    for executed in (12, 16, 20):
        assert torch.equal(plan.step(network, seen(), executed), last)
    assert len(network.asked) == calls
    assert [int(entry["executed"][0]) for entry in plan.log] == [0, 4, 8, 10, 10, 10]


def test_the_log_keeps_copies_in_the_shapes_promised():
    plan, network = planner(batch=2), Planted(wants(1, batch=2))
    for step in range(3):
        network.logits = wants(step, batch=2)
        plan.step(network, seen(True, True), 2 * step)
    for entry in plan.log:
        assert entry["executed"].shape == (2,)
        assert {entry[key].shape for key in ("tokens", "confidence", "masked")} == {(2, SIZE)}
    assert (plan.log[0]["tokens"] == 0).all(), "an old entry is not rewritten by later plans"


def test_a_plan_of_near_duplicates_stays_sure():
    """The network moves from each code to its twin, but for two places, where it wants something else."""
    pairs = torch.arange(8)[:, None].expand(8, 2) // 2 * 1.0
    alike = likeness(pairs + torch.rand(8, 2) * 1e-3, 1.0)
    elsewhere = torch.tensor([0, 0, 0, 0, 1, 0, 0, 1, 0, 0], dtype=torch.bool)
    for kernel, spared in ((None, False), (alike, True)):
        plan = planner(mask_ratio=0.25, refine_steps=1)
        plan.alike = kernel
        network = Planted(wants(2))
        plan.step(network, seen(), 0)
        # the twin 3 everywhere, surer where the code itself is doubted most
        network.logits = wants(torch.where(elsewhere, 6, 3), torch.where(elsewhere, 0.5, 0.9))
        plan.step(network, seen(), 2)
        masked = torch.from_numpy(plan.log[-1]["masked"][0] > 0)
        assert bool((masked == elsewhere).all()) == spared


# --- plans that are there later, and plans that stay ------------------------------------------------------------------


def test_frozen_tokens_stay_and_are_in_view_of_scoring_and_refining():
    plan, network = planner(mask_ratio=1.0), Planted(wants(2))
    plan.step(network, seen(), 0)
    network.logits, network.asked, network.executed = wants(5), [], []
    tokens = plan.step(network, seen(), 3, frozen=6)
    assert tokens[0].tolist() == [2] * 6 + [5] * 4
    assert [asked[0, :6].tolist() for asked in network.asked] == [[2] * 6] * 3
    assert {int(executed) for executed in network.executed} == {3}, "the network knows when it looked"
    assert plan.log[-1]["executed"].tolist() == [3]
    assert plan.sure[0] == pytest.approx(0.9, abs=0.02)
    network.asked = []
    assert plan.step(network, seen(), 4, frozen=SIZE)[0].tolist() == tokens[0].tolist()
    assert network.asked == [], "nothing is left to edit"
    assert torch.isnan(plan.sure).all()


def test_a_look_rewrites_only_so_far_ahead_and_the_rest_is_in_view():
    plan, network = planner(mask_ratio=1.0, edit_window=3), Planted(wants(2))
    plan.step(network, seen(), 0)
    network.logits, network.asked = wants(5), []
    tokens = plan.step(network, seen(), 4)
    assert tokens[0].tolist() == [2] * 4 + [5] * 3 + [2] * 3
    for asked in network.asked:  # scoring and both rounds
        assert asked[0, :4].tolist() == [*asked[0, 7:].tolist(), 2] == [2] * 4
    assert network.asked[0][0, 4:7].tolist() == [WORDS.mask] * 3, "nothing within reach vouches for itself"
    assert plan.confidence is not None
    assert torch.allclose(plan.confidence[0, 7:], torch.tensor(0.9), atol=0.02), "who is not asked about stays as sure"
    assert plan.step(network, seen(), 8)[0].tolist() == [2] * 4 + [5] * 3 + [2] + [5] * 2, (
        "the window moves on, and ends"
    )


def test_without_score_based_masking_there_is_no_edit_window():
    plan, network = planner(variant="no-sm", edit_window=3), Planted(wants(2))
    plan.step(network, seen(), 0)
    network.logits = wants(5)
    assert plan.step(network, seen(), 4)[0].tolist() == [2] * 4 + [5] * 6


def test_what_was_begun_meanwhile_is_kept_and_so_is_everything_of_a_refused_plan():
    plan, network = planner(batch=2, mask_ratio=1.0), Planted(wants(2, batch=2))
    before = plan.step(network, seen(True, True), 0)
    network.logits = wants(5, 0.6, batch=2)
    plan.step(network, seen(True, True), 1)
    plan.keep(4)
    assert plan.tokens[0].tolist() == [2] * 4 + [5] * 6
    np.testing.assert_array_equal(plan.log[-1]["tokens"], plan.tokens)
    assert (plan.log[-1]["confidence"][:, :4] > 0.85).all()
    assert (plan.log[-1]["confidence"][:, 4:] < 0.65).all()
    plan.keep(SIZE)
    assert torch.equal(plan.tokens, before)


def standing(share: torch.Tensor | float) -> torch.Tensor:
    """Logits that give the standing code 2 a share, and prefer code 5."""
    logits = torch.full((1, SIZE, WORDS.predicted), 0.01)
    logits[..., 2], logits[..., 5] = torch.as_tensor(share), 0.9 - torch.as_tensor(share)
    return logits.log()


@pytest.mark.parametrize(("share", "rewritten"), [(0.42, True), (0.5, False), (0.7, False)])
def test_a_plan_is_rewritten_only_if_what_comes_next_has_lost_confidence(share, rewritten):
    plan, network = planner(replan=0.5, mask_ratio=0.5), Planted(wants(2, 0.9))
    plan.step(network, seen(), 0)
    network.logits, network.asked = standing(share), []
    tokens = plan.step(network, seen(), 2)
    assert len(network.asked) == (3 if rewritten else 1), "a look alone costs one pass"
    assert bool(plan.log[-1]["masked"].any()) == rewritten
    assert (tokens == 5).any() == rewritten
    sure = float(plan.sure[0])
    assert sure > 0.4 if rewritten else sure == pytest.approx(share / 0.96, abs=0.01), "the new score is told"


def test_only_the_next_tokens_count_and_a_slow_fall_is_noticed():
    plan, network = planner(replan=0.5), Planted(wants(2, 0.9))
    plan.step(network, seen(), 0)
    far = torch.full((SIZE,), 0.8)
    far[5:] = 0.01
    network.logits = standing(far)
    plan.step(network, seen(), 1)
    assert not plan.log[-1]["masked"].any()
    rewritten = []
    for share in (0.75, 0.65, 0.55, 0.47, 0.40):  # never half of the look before
        network.logits = standing(share)
        plan.step(network, seen(), 1)
        rewritten.append(bool(plan.log[-1]["masked"].any()))
    assert rewritten == [False, False, False, False, True]


def test_in_a_batch_each_plan_stays_or_is_rewritten_as_if_alone():
    falls = torch.cat([standing(0.7), standing(0.2)])

    def episodes(rows: list[int]) -> torch.Tensor:
        plan = planner(batch=len(rows), seeds=tuple(rows), replan=0.5, temperature=1.0)
        plan.step(Planted(wants(2, 0.97, batch=2)[rows]), torch.ones(len(rows), dtype=torch.bool), 0)
        plan.tokens[:] = 2
        plan.written[:] = 0.9
        for _ in range(3):
            plan.step(Planted(falls[rows]), torch.ones(len(rows), dtype=torch.bool), 1)
        return plan.tokens

    together = episodes([0, 1])
    assert torch.equal(together[:1], episodes([0]))
    assert torch.equal(together[1:], episodes([1]))
    assert (together[0] == 2).all()
    assert not (together[1] == 2).all()
