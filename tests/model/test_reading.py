"""Acting repeats nothing, and comes to the same as the whole network at every pass."""

from __future__ import annotations

import pytest
import torch
from test_transformer import BATCH, CODES, HISTORY, WIDTH, transformer

from mgp.data.demonstrations import keyed_generator
from mgp.graph import watched
from mgp.model.reading import ROUND, Reading, chosen
from mgp.model.transformer import at

SIZE = 20
MASK = CODES + 2


def passes() -> list[torch.Tensor]:
    """Tokens of three passes of a plan, of which five are executed: scored, masked in part, and in part again."""
    random = keyed_generator(3)
    plan = torch.randint(CODES, (BATCH, SIZE), generator=random)
    pending = torch.arange(SIZE) >= 5
    some = pending & (torch.rand(BATCH, SIZE, generator=random) < 0.6)
    fewer = some & (torch.rand(BATCH, SIZE, generator=random) < 0.5)
    return [torch.where(hidden, MASK, plan) for hidden in (pending, some, fewer)]


@pytest.mark.parametrize("changes", [{}, {"local": 2}, {"time": "both"}, {"self_layers": 0}, {"cross_layers": 1}])
@torch.inference_mode()
def test_each_pass_answers_as_the_whole_network_does(changes):
    model = transformer(SIZE, **changes)
    condition = torch.randn(BATCH, HISTORY, WIDTH, generator=keyed_generator(1))
    executed = torch.full((BATCH,), 5)
    reading = Reading(model, lambda: condition)
    for tokens in passes():
        wanted = chosen(tokens == MASK)
        expected = at(model(tokens, condition, executed), wanted)
        torch.testing.assert_close(reading(tokens, wanted, executed), expected, rtol=1e-5, atol=1e-6)


@torch.inference_mode()
def test_the_condition_is_read_once_and_later_passes_read_what_changed():
    model, asked, read = transformer(SIZE), [], []

    def condition() -> torch.Tensor:
        asked.append(True)
        return torch.randn(BATCH, HISTORY, WIDTH)

    reading = Reading(model, condition)
    assert not asked, "a plan that stays needs no observation"
    first, *later = passes()
    with watched(lambda module, method, inputs, output: read.append((method, inputs[0].shape[1]))):
        for tokens in (first, *later):
            reading(tokens, chosen(tokens == MASK), torch.full((BATCH,), 5))
    assert len(asked) == 1
    assert [method for method, _ in read].count("keys_values") == 1
    changed = [int((tokens != first).sum(1).max()) for tokens in later]
    assert [size for method, size in read if method == "read"] == [SIZE, *(-(-n // ROUND) * ROUND for n in changed)]
    assert max(changed) <= 2 * ROUND < SIZE, "else nothing is saved, and nothing shown"


@torch.inference_mode()
def test_another_number_of_executed_tokens_is_read_anew():
    model, condition = transformer(SIZE), torch.randn(BATCH, HISTORY, WIDTH)
    reading, tokens = Reading(model, lambda: condition), passes()[0]
    wanted = chosen(tokens == MASK)
    for executed in (torch.full((BATCH,), 5), torch.full((BATCH,), 7)):
        expected = at(model(tokens, condition, executed), wanted)
        torch.testing.assert_close(reading(tokens, wanted, executed), expected, rtol=1e-5, atol=1e-6)


def test_chosen_places_come_first_in_order_and_their_number_is_rounded_up():
    those = torch.zeros(2, 30, dtype=torch.bool)
    those[0, [3, 9, 20]] = True
    those[1, :11] = True
    places = chosen(those)
    assert places.shape == (2, 16)
    assert places[0, :3].tolist() == [3, 9, 20]
    assert places[1, :11].tolist() == list(range(11))
    assert all(len(set(row)) == 16 for row in places.tolist()), "no place twice"
    assert chosen(torch.ones(1, 5, dtype=torch.bool)).shape == (1, 5)
    assert chosen(torch.zeros(1, 30, dtype=torch.bool)).shape == (1, ROUND)


@pytest.mark.parametrize("changes", [{}, {"local": 2}])
@torch.inference_mode()
def test_several_plans_of_an_episode_are_read_under_its_condition(changes):
    model = transformer(SIZE, **changes)
    condition = torch.randn(BATCH, HISTORY, WIDTH, generator=keyed_generator(1))
    reading = Reading(model, lambda: condition)
    first, *later = passes()
    rows = torch.stack([first, *later], 1).flatten(0, 1)  # those of an episode one after the other
    wanted = chosen(rows == MASK)
    expected = at(model(rows, condition.repeat_interleave(3, 0), torch.full((3 * BATCH,), 5)), wanted)
    torch.testing.assert_close(reading(rows, wanted, torch.full((3 * BATCH,), 5)), expected, rtol=1e-5, atol=1e-6)
    wanted = chosen(first == MASK)
    expected = at(model(first, condition, torch.full((BATCH,), 5)), wanted)
    torch.testing.assert_close(reading(first, wanted, torch.full((BATCH,), 5)), expected, rtol=1e-5, atol=1e-6)
