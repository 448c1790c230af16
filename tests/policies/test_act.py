"""ACT: temporal ensembling, the latent, and that it learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learning import error, trained

import small
from mgp.errors import ConfigError
from mgp.policies.act import blend


def policy(**changes):
    return small.untrained(small.tiny_of("act", **changes))


def test_chunks_are_averaged_by_exp_of_their_age_the_oldest_first():
    random = np.random.default_rng(0)
    chunks = random.normal(size=(6, 4, 3))  # six predictions of the same four actions, oldest first
    average, count = np.zeros((4, 3)), np.zeros(4, dtype=int)
    for chunk in chunks:
        average, count = blend(average, count, chunk, 0.01), count + 1
    weights = np.exp(-0.01 * np.arange(6))
    np.testing.assert_allclose(average, np.einsum("i,ita->ta", weights / weights.sum(), chunks), rtol=1e-5)
    average, count = np.zeros((4, 3)), np.zeros(4, dtype=int)
    for chunk in chunks:
        average, count = blend(average, count, chunk, 0.0), count + 1
    np.testing.assert_allclose(average, chunks.mean(0), rtol=1e-5)


def test_an_action_is_the_average_of_all_that_was_said_of_its_time():
    ensembling = policy()
    plain = ensembling.with_sampling(ensemble=False)
    frames = [small.frames(ensembling.config, 2, ensembling.frames, seed) for seed in range(5)]
    fresh = [plain.plan(frame, plain.begin([0, 1])).actions for frame in frames]  # (5, B, T, A)
    memory = ensembling.begin([0, 1])
    for step, frame in enumerate(frames):
        chunk = ensembling.plan(frame, memory)
        assert chunk.run == 1
        said = np.stack([fresh[then][:, step - then] for then in range(step + 1)])
        weights = np.exp(-0.01 * np.arange(step + 1))
        expected = np.einsum("i,iba->ba", weights / weights.sum(), said)
        np.testing.assert_allclose(chunk.actions[:, 0], expected, atol=1e-6)


def test_an_episode_without_an_observation_holds_and_its_average_waits():
    ensembling = policy()
    frames = [small.frames(ensembling.config, 2, ensembling.frames, seed) for seed in range(3)]
    memory, alone = ensembling.begin([0, 1]), ensembling.begin([0, 1])
    ensembling.plan(frames[0], memory)
    held = ensembling.plan(frames[1], memory, np.array([True, False])).actions
    np.testing.assert_array_equal(held[1, :, :2], 0.0)  # the hold of `small`
    last = ensembling.plan(frames[2], memory).actions
    ensembling.plan(frames[0], alone)
    np.testing.assert_allclose(last[1], ensembling.plan(frames[2], alone).actions[1], atol=1e-6)


def test_without_ensembling_a_chunk_is_run():
    plain = policy().with_sampling(ensemble=False, execution_horizon=8)
    chunk = plain.plan(small.frames(plain.config, 1, plain.frames), plain.begin([0]))
    assert chunk.run == 8
    assert chunk.actions.shape == (1, 8, small.ACTION)
    with pytest.raises(ConfigError, match="ensemble = True averages a chunk a step, execution_horizon = 8"):
        policy().with_sampling(execution_horizon=8)


def test_actions_beyond_the_end_of_an_episode_are_not_looked_at():
    act = policy()
    condition, actions = torch.randn(2, act.frames, act.encoder.dim), torch.randn(2, act.window, small.ACTION)
    inside = torch.arange(act.window) < torch.tensor([[3], [act.window]])
    other = actions.clone()
    other[:, 3:] += 1
    with torch.no_grad():
        before, after = act.posterior(condition, actions, inside)[0], act.posterior(condition, other, inside)[0]
    torch.testing.assert_close(before[0], after[0])
    assert (before[1] - after[1]).abs().max() > 1e-4


def test_it_learns_a_toy_set(tmp_path):
    changes = {"training.steps": 150, "training.batch": 32, "training.learning_rate": 5e-3, "policy.dropout": 0.0}
    assert error(trained("act", tmp_path, **changes), 4) < 0.15
