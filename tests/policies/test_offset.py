"""The offset head: what it is shown in training, and which actions it corrects."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import small
from mgp.data.demonstrations import keyed_generator
from mgp.policies.mgp import MGP
from mgp.policies.mgp.offset import draw_near, ladder, nearness
from mgp.tokenizer.codebook import code_distances


def corrected(horizon: str, by: float, **changes) -> MGP:
    """A policy whose head adds the same to every normalised action, whatever it sees; `by` 0: one without a head."""
    policy = small.policy(small.tiny(horizon, **{"policy.offset": 8.0 if by else 0.0, **changes}))
    assert isinstance(policy, MGP)
    if policy.offset is not None:
        for parameter in policy.offset.parameters():
            parameter.data.zero_()
        policy.offset.layers[-1].bias.data.fill_(by)
    return policy


def added(horizon: str, looks: list[bool], **sampling) -> list[np.ndarray]:
    """By how much each normalised action (T, A) of an episode is corrected at each look; `looks`: was it observed."""
    plans = []
    for by in (0.0, 0.25):
        policy = corrected(horizon, by).with_sampling(**sampling)
        memory, out = policy.begin([0]), []
        for step, look in enumerate(looks):
            chunk = policy.plan(small.frames(policy.config, 1, policy.frames, seed=step), memory, np.array([look]))
            memory.last = chunk.actions[:, chunk.run - 1]
            out.append(policy.normalizer.normalize("action", torch.from_numpy(chunk.actions[0])))
        plans.append(out)
    # those that are not cut at the demonstrated limits
    return [torch.where(plain < 0.7, other - plain, torch.nan).numpy() for plain, other in zip(*plans, strict=True)]


def test_codes_are_drawn_near_the_right_ones():
    codes = torch.randn(32, 4, generator=keyed_generator(1))
    chance = nearness(codes, 1.0)
    torch.testing.assert_close(chance.sum(1), torch.ones(32))
    assert torch.equal(chance.argmax(1), torch.arange(32))
    tokens = torch.arange(32).repeat(50, 1)
    drawn = draw_near(tokens, ladder(chance), keyed_generator(2))
    assert torch.equal(drawn, draw_near(tokens, ladder(chance), keyed_generator(2)))
    distance = code_distances(codes)
    assert 0 < distance[tokens, drawn].mean() < 0.5 * distance.mean()
    assert torch.equal(draw_near(tokens, ladder(nearness(codes, 1e-3)), keyed_generator(2)), tokens)


def test_each_code_is_drawn_as_often_as_its_probability_says():
    chance = torch.tensor([[0.0, 0.25, 0.75, 0.0], [1.0, 0, 0, 0], [0.1, 0.2, 0.3, 0.4], [0, 0, 0, 1.0]])
    count = 40_000
    tokens = torch.arange(4).repeat(count, 1)
    drawn = draw_near(tokens, ladder(chance), keyed_generator(3))
    for row in range(4):
        share = torch.bincount(drawn[:, row], minlength=4) / count
        torch.testing.assert_close(share, chance[row], atol=0.01, rtol=0)
        assert not share[chance[row] == 0].any(), "what is impossible is never drawn"


def test_short_corrects_its_window():
    for by in added("short", [True, True]):
        assert np.nanmax(np.abs(by - 0.25)) < 1e-4


def test_long_corrects_what_comes_next_and_keeps_it_through_a_gap():
    """Three tokens of four actions at each look. A gap at step 8 goes on with what the look at step 4 said."""
    start, second, gap, later = added("long", [True, True, False, False])
    for row, until in ((start, 12), (second, 12), (gap, 8), (later, 4)):
        assert np.nanmean(row[:until]) == pytest.approx(0.25, abs=1e-4)
    for row, since in ((start, 12), (second, 12), (gap, 8), (later, 4)):
        assert np.nanmean(row[since:]) == pytest.approx(0, abs=1e-4)


def test_full_never_looks_again():
    start, *_, later = added("long", [True, True, True, True], variant="full")
    assert np.nanmean(start[:12]) == pytest.approx(0.25, abs=1e-4)
    assert np.nanmean(later) == pytest.approx(0, abs=1e-4)  # steps 12 on


def test_a_row_alone_is_corrected_as_in_a_batch():
    policy = small.policy(small.tiny("long", **{"policy.offset": 8.0}))
    assert isinstance(policy, MGP)
    together, alone = policy.begin([0, 1]), policy.begin([1])
    for step, seen in enumerate(([True, True], [False, True], [True, True])):
        view = small.frames(policy.config, 2, policy.frames, seed=step)
        both = policy.plan(view, together, np.array(seen)).actions[1]
        own = policy.plan({key: value[1:] for key, value in view.items()}, alone, np.array(seen[1:])).actions[0]
        np.testing.assert_allclose(both, own, atol=1e-5)


@pytest.mark.parametrize("horizon", ["short", "long"])
def test_the_head_learns_to_undo_a_wrong_choice(horizon):
    """Shown actions of other codes than the right ones, it comes nearer to the right actions than they are."""
    config = small.tiny(horizon, **{"policy.offset": 64.0, "training.learning_rate": 1e-2})
    policy, data = small.policy(config), small.demonstrations("state")
    assert isinstance(policy, MGP)
    assert policy.offset is not None
    stage = policy.stages()[-1]
    parameters = policy.begin_stage(stage)
    source, optimizer = policy.source(stage, data), torch.optim.Adam(parameters.values(), lr=1e-2)
    errors = []
    for step in range(60):
        loss, figures = policy.loss(stage, source.draw(32, keyed_generator(0, step)), keyed_generator(1, step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(float(figures["offset"]))
    assert np.mean(errors[-5:]) < 0.7 * np.mean(errors[:5])


def test_the_log_tells_how_far_off_the_guesses_are():
    """A head that is shown any code at all learns to overrule what was chosen: this figure is where that is seen."""
    guesses = []
    for width in (1e-3, 1e6):
        policy = small.policy(small.tiny("long", **{"policy.offset": width}))
        assert isinstance(policy, MGP)
        stage = policy.stages()[-1]
        policy.begin_stage(stage)
        batch = policy.source(stage, small.demonstrations("state")).draw(32, keyed_generator(0, 0))
        guesses.append(float(policy.loss(stage, batch, keyed_generator(1, 0))[1]["guess"]))
    assert guesses[0] < 0.8 * guesses[1]
