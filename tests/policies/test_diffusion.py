from __future__ import annotations

import builtins

import denoisers
import numpy as np
import pytest
import torch

import small
from mgp.data.demonstrations import keyed_generator
from mgp.data.spec import DataSpec
from mgp.errors import ConfigError
from mgp.policies import methods, policy_class
from mgp.policies.config import RunConfig
from mgp.policies.diffusion import make_scheduler
from mgp.policies.open_loop import FirstWindows

SPEC = DataSpec({"state": (9,), "cloud": (512, 3)}, 4, 200, "displacement", (0.0, 0.0, 0.0, None))
STEPS = {"dp": 100, "dp3": 10, "simple-dp3": 10, "dp3-full": 10}  # of denoising; `small` has fewer


@pytest.mark.parametrize("method", STEPS)
def test_steps_of_denoising_are_the_released_ones(method):
    assert methods()[method].policy.sampling.steps == STEPS[method]


def generators(count: int) -> list[torch.Generator]:
    return [keyed_generator(row) for row in range(count)]


@pytest.mark.parametrize("method", ["dp", "dp3"])
def test_sampling_is_the_schedulers_own_step_by_step(method):
    made = small.untrained(small.tiny_of(method, **{"policy.sampling.steps": STEPS[method]}))
    denoisers.plant(made, lambda x, step: torch.sin(3 * x) * (1 + step / 50))
    condition = torch.zeros(3, made.condition_width)
    with torch.inference_mode():
        ours = made.sample(condition, generators(3))
    scheduler = make_scheduler(made.options)
    scheduler.set_timesteps(STEPS[method])
    for row, generator in enumerate(generators(3)):  # each alone, so that none depends on its neighbours
        x = torch.randn((1, made.window, made.spec.action), generator=generator)
        for step in scheduler.timesteps:
            x = scheduler.step(torch.sin(3 * x) * (1 + step / 50), step, x, generator=generator).prev_sample
        torch.testing.assert_close(ours[row : row + 1], x)


def test_ddim_is_the_published_formula():
    """x_{t-1} = sqrt(a') x0 + sqrt(1 - a') eps, without fresh noise."""
    made = small.untrained(small.tiny_of("dp3", **{"policy.sampling.steps": STEPS["dp3"]}))
    clean = torch.rand(1, made.window, made.spec.action) - 0.5
    planted = denoisers.plant(made, lambda x, step: clean + 0.3 * torch.tanh(x))
    with torch.inference_mode():
        ours = made.sample(torch.zeros(1, made.condition_width), generators(1))
    assert [int(step) for step in planted.steps] == list(range(90, -1, -10))
    alphas, x = made.scheduler.alphas_cumprod, made.noise(generators(1))
    for step in range(90, -1, -10):
        a, after = alphas[step], alphas[step - 10] if step else torch.tensor(1.0)
        told = (clean + 0.3 * torch.tanh(x)).clamp(-1, 1)
        x = after.sqrt() * told + (1 - after).sqrt() * (x - a.sqrt() * told) / (1 - a).sqrt()
    torch.testing.assert_close(ours, x)


@pytest.mark.parametrize("method", ["dp", "dp3"])
def test_a_network_that_knows_the_actions_recovers_them(method):
    made = small.untrained(small.tiny_of(method, **{"policy.sampling.steps": STEPS[method]}))
    clean = torch.rand(3, made.window, made.spec.action) * 1.6 - 0.8
    alphas = made.scheduler.alphas_cumprod

    def told(x, step):
        return clean if method == "dp3" else (x - alphas[step].sqrt() * clean) / (1 - alphas[step]).sqrt()

    denoisers.plant(made, told)
    with torch.inference_mode():
        found = made.sample(torch.zeros(3, made.condition_width), generators(3))
    torch.testing.assert_close(found, clean, atol=1e-3, rtol=0)


@pytest.mark.parametrize("method", STEPS)
def test_learns_a_toy_set_by_heart(method):
    share, _ = denoisers.overfit(method, 150 if method == "dp" else 80, **{"policy.sampling.steps": STEPS[method]})
    assert share < 0.25


def test_the_window_starts_at_the_oldest_frame():
    made = small.untrained(small.tiny_of("dp3"))
    assert (made.past, made.window, made.execution_horizon) == (1, 12, 4)
    told = made.predict(torch.zeros(2, 2, made.encoder.dim), generators(2))
    assert told.shape == (2, 11, small.ACTION)


@pytest.mark.parametrize(("method", "millions"), [("paper-dp3", 255), ("paper-simple-dp3", 7.4), ("dp3", 1.6)])
def test_sizes(method, millions):
    """DP3 is told at 255 to 262 M, by the version."""
    config = methods()[method].config(method, RunConfig().task, "displacement")
    with torch.device("meta"):
        made = policy_class(config.policy.name)(config, SPEC)
    acts = [weight for name, weight in made.named_parameters() if not name.startswith("auxiliary.")]
    assert sum(weight.numel() for weight in acts) / 1e6 == pytest.approx(millions, rel=0.05)


def test_more_steps_than_levels_are_refused():
    made = small.untrained(small.tiny_of("dp3"))
    assert made.with_sampling(steps=100).sampling.steps == 100
    with pytest.raises(ConfigError, match=r"101.*100"):
        made.with_sampling(steps=101)


def test_without_diffusers_the_extra_is_named(monkeypatch):
    whole = builtins.__import__

    def without(name, *arguments, **more):
        if name.startswith("diffusers"):
            raise ImportError("no diffusers here")
        return whole(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"baselines"):
        small.untrained(small.tiny_of("dp3"))


# --- DP3-Full -----------------------------------------------------------------------------------------------------


def test_full_plans_the_episode_once_and_later_observations_change_nothing():
    config = small.tiny_of("dp3-full")
    made = small.untrained(config)
    memory = made.begin([0, 1, 2])
    chunk = made.plan(small.frames(config, 3, 1), memory)
    assert chunk.actions.shape == (3, small.HORIZON, small.ACTION)
    assert chunk.run == 4
    seen = made.plan(small.frames(config, 3, 1, seed=1), memory, np.array([True, False, True]))
    np.testing.assert_array_equal(seen.actions[:, :-4], chunk.actions[:, 4:])
    memory.last = chunk.actions[:, -1]
    over = made.plan(small.frames(config, 3, 1, seed=2), memory, np.zeros(3, bool), executed=small.HORIZON)
    assert (over.actions[..., :2] == 0).all()  # holds
    np.testing.assert_array_equal(over.actions[:, 0, 2], memory.last[:, 2])


def test_full_waits_for_a_first_observation_and_equals_its_rows_alone():
    config = small.tiny_of("dp3-full")
    made, frames = small.untrained(config), small.frames(config, 2, 1)
    memory = made.begin([0, 1])
    first = made.plan(frames, memory, np.array([True, False]))
    assert (first.actions[1, :, :2] == 0).all()
    second = made.plan(frames, memory)
    alone = made.plan({key: value[1:] for key, value in frames.items()}, made.begin([1]))
    np.testing.assert_allclose(second.actions[1:], alone.actions, atol=1e-5)
    np.testing.assert_array_equal(second.actions[0, :-4], first.actions[0, 4:])


def test_full_learns_from_first_frames_and_to_stay_afterwards(monkeypatch):
    data = small.demonstrations()
    made = small.untrained(small.tiny_of("dp3-full"))
    source = made.source(made.stages()[0], data)
    assert isinstance(source, FirstWindows)
    batch = source.draw(16, keyed_generator(0))
    assert set(batch.looks.which[:, -1].tolist()) <= set(data.starts.tolist())
    assert batch.actions.shape == (16, small.HORIZON, small.ACTION)
    assert not batch.inside.all()
    learned = []
    monkeypatch.setattr(made, "action_loss", lambda _, actions, *more: learned.append(actions) or (actions.sum(), {}))
    made.loss(made.stages()[0], batch, keyed_generator(0))
    after = made.normalizer.denormalize("action", learned[0])[~batch.inside]
    assert after[:, :2].abs().max() < 1e-5
    torch.testing.assert_close(after[:, 2], batch.actions[~batch.inside][:, 2])  # the gripper's command goes on
