"""PRISE: byte-pair encoding, skills that are run to their end, and that it learns."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from learning import error, trained

import small
from mgp.policies.prise import SkillMemory
from mgp.tokenizer import bpe


def strings(count: int = 12, length: int = 60) -> list[list[int]]:
    chance = random.Random(0)
    return [[chance.choice((0, 0, 0, 1, 2, 3)) for _ in range(length)] for _ in range(count)]


def test_bpe_goes_round():
    merges = bpe.learn(strings(), 4, 40, longest=8, frequency=2)
    words = bpe.words(merges, 4)
    assert len(words) == 40
    assert max(map(len, words)) <= 8
    assert [words[token] for token in range(4)] == [(0,), (1,), (2,), (3,)]
    chance = random.Random(1)
    for length in (0, 1, 2, 7, 50):
        for _ in range(20):
            codes = [chance.randrange(4) for _ in range(length)]
            tokens = bpe.encode(codes, merges, 4)
            assert [code for token in tokens for code in words[token]] == codes
            assert length < 20 or len(tokens) < length


def test_bpe_of_a_known_case():
    # 0 1 stands four times; then (0 1) 2 and 2 (0 1) twice: ties go to the lowest pair
    assert bpe.learn([[0, 1, 2, 0, 1, 2, 0, 1, 3, 0, 1]], 4, 6, 20, 2) == [(0, 1), (2, 4)]
    assert bpe.learn([[0, 1, 2, 0, 1, 2, 0, 1, 3, 0, 1]], 4, 99, 2, 2) == [(0, 1)]  # none longer than 2
    assert bpe.learn([[3, 2, 3, 2], [1, 0, 1, 0]], 4, 5, 20, 2) == [(1, 0)]
    assert bpe.encode([0, 0, 0], [(0, 0)], 1) == [1, 0]  # from the left
    assert bpe.learn([[0], []], 4, 9, 20, 1) == []


def test_merges_are_those_of_the_strings_whatever_their_order():
    given = strings()
    assert bpe.learn(given, 4, 40, 8, 2) == bpe.learn(given[::-1], 4, 40, 8, 2)


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    changes = {
        "training.steps": 200, "training.batch": 32, "training.learning_rate": 5e-3, "policy.steps": 200,
        "policy.batch": 32, "policy.learning_rate": 5e-3, "policy.gpt.dropout": 0.0, "policy.hidden": 32,
    }  # fmt: skip
    return trained("prise", tmp_path_factory.mktemp("prise"), **changes)


def test_merges_are_in_the_checkpoint(policy):
    words = policy.skills.words()
    assert len(words) > policy.options.codes
    assert (
        policy.skills.table.sum((1, 2)) == torch.tensor([min(len(word), 3) for word in words] + [0] * (24 - len(words)))
    ).all()
    logits = policy.logits(torch.randn(2, 16))
    assert logits[:, : len(words)].isfinite().all()
    assert not logits[:, len(words) :].isfinite().any()


def test_a_skill_is_run_to_its_end_each_code_with_the_newest_observation(policy):
    words = policy.skills.words()
    token = max(range(len(words)), key=lambda index: len(words[index]))
    memory = policy.begin([0, 1])
    assert isinstance(memory, SkillMemory)
    memory.pending[0].extend(words[token])
    for step in range(len(words[token])):
        frames = small.frames(policy.config, 2, policy.frames, step)
        chunk = policy.plan(frames, memory)
        assert chunk.run == 1
        with torch.inference_mode():
            looks, _ = policy.look(frames, memory, None)
            code = torch.tensor([words[token][step]] * 2)
            expected = policy.raw_actions(policy.codes.decode(policy.states(policy.condition(looks)), code))
        np.testing.assert_allclose(chunk.actions[0, 0], expected[0].numpy(), atol=1e-6)
    assert memory.pending[0] == []


def test_without_an_observation_the_skill_waits(policy):
    memory = policy.begin([0, 1])
    memory.pending[0].extend([1, 2])
    memory.pending[1].extend([1, 2])
    held = policy.plan(small.frames(policy.config, 2, policy.frames), memory, np.array([True, False])).actions
    np.testing.assert_array_equal(held[1, :, :2], 0.0)
    assert memory.pending == [[2], [1, 2]]


def test_it_learns_a_toy_set(policy):
    assert error(policy) < 0.2
