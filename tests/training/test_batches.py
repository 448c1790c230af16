from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

import small
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch, Source, Windows
from mgp.errors import ConfigError
from mgp.policies.learned import LearnedPolicy
from mgp.sampling import corruption
from mgp.sampling.losses import soft_targets, token_loss
from mgp.sampling.stale import led_aside, span

CLEAN = {"policy.masking.perturb": 0.0, "policy.masking.foreign_prefix": 0.0, "policy.masking.foreign_plan": 0.0}


@pytest.fixture
def _uncut(monkeypatch):
    """No sequence is cut short."""
    monkeypatch.setattr(corruption, "CUT", 0.0)


def source(policy: LearnedPolicy, data: Demonstrations) -> Source:
    """Of the last stage."""
    return policy.source(policy.stages()[-1], data)


def newest(batch: Batch) -> torch.Tensor:
    """Flat times (B,) of the newest frames of a clocked batch."""
    return batch.looks.state[:, -1, 0].long()


def clocked(observation: str = "state") -> Demonstrations:
    """The first number of each state is its flat time."""
    data = small.demonstrations(observation)
    data.arrays["state"][:, 0] = torch.arange(len(data.arrays["state"]))
    return data


@pytest.mark.parametrize("history", [1, 4])
def test_a_short_batch_pairs_each_observation_with_the_window_around_it(history):
    config = small.tiny("short", **CLEAN, **{"encoder.history": history})
    data, policy = clocked(), small.policy(config)
    batch = source(policy, data).draw(50, keyed_generator(0))
    time = newest(batch)
    assert torch.equal(batch.looks.state[:, :, 0].long(), data.history(time, history))
    windows = data.action_windows(time - (history - 1), 8, data.episode_of(time))
    assert torch.equal(batch.extra["target"], policy.tokenize(windows))
    assert torch.equal(batch.actions, windows)
    assert (batch.extra["executed"] == 0).all()
    assert len(time.unique()) > 20


@pytest.mark.usefixtures("_uncut")
def test_a_long_batch_counts_executed_tokens_from_the_episodes_start():
    config = small.tiny("long", **CLEAN)
    data, policy = clocked(), small.policy(config)
    batch = source(policy, data).draw(300, keyed_generator(0))
    time = newest(batch)
    episode = data.episode_of(time)
    phase = time - data.starts[episode] - 4 * batch.extra["executed"]
    assert set(phase.tolist()) == {0, 1, 2, 3}
    assert (batch.extra["executed"] == 0).any()
    assert batch.extra["executed"].max() == 5
    whole = policy.tokenize(data.action_windows(data.starts[episode] + phase, 24, episode))
    code = (batch.extra["target"] < policy.transformer.vocabulary.codes) & (batch.extra["weight"] > 0)
    assert torch.equal(batch.extra["target"][code], whole[code])
    assert torch.equal(batch.actions, data.action_windows(time, policy.window, episode)), "those that come next"
    # episodes of 24 steps fill the horizon and have no [END]; the others end where their last action does
    steps = data.lengths[episode]
    ends = batch.extra["target"] == policy.transformer.vocabulary.end
    assert not ends[steps == 24].any()
    shorter = steps < 24
    expected = -(-(steps - phase) // 4)
    assert torch.equal(ends[shorter].int().argmax(1), expected[shorter])


@pytest.mark.usefixtures("_uncut")
def test_an_episode_shorter_than_a_token_is_not_left():
    config = small.tiny("long", **CLEAN)
    data = small.demonstrations(lengths=(2, 24, 1))
    data.arrays["state"][:, 0] = torch.arange(27)
    batch = source(small.policy(config), data).draw(300, keyed_generator(0))
    time = newest(batch)
    assert set(time[batch.extra["executed"] == 0].tolist()) == {0, 1, 2, 3, 4, 5, 26}
    counts = torch.bincount(data.episode_of(time), minlength=3)
    assert (counts > 70).all(), "each as often as the others"


def test_without_end_the_last_action_goes_on_to_the_horizon():
    config = small.tiny("long", **CLEAN, **{"policy.masking.end": False})
    data, policy = clocked(), small.policy(config)
    batch = source(policy, data).draw(100, keyed_generator(0))
    vocabulary = policy.transformer.vocabulary
    assert (batch.extra["target"] < vocabulary.codes).all(), "neither [END] nor [PAD]"
    assert not (batch.extra["tokens"] == vocabulary.pad).any(), "nothing tells the length beforehand"
    assert (batch.extra["weight"][:, -1] > 0).all()
    last = data.arrays["action"][data.ends - 1]
    episode = data.episode_of(newest(batch))
    held = policy.tokenize(last[episode][:, None].expand(-1, 24, -1))[:, -1]
    short = data.lengths[episode] == 17  # the tokenizer sees a few actions round a token
    assert short.any()
    assert torch.equal(batch.extra["target"][short, -1], held[short])


def test_some_long_samples_start_from_nothing():
    config = small.tiny("long", **{"policy.masking.start": 0.5})
    batch = source(small.policy(config), clocked()).draw(400, keyed_generator(1))
    assert 0.45 < (batch.extra["executed"] == 0).float().mean() < 0.72


def test_each_distinct_frame_of_a_batch_is_there_once():
    config = small.tiny("short", "cloud", **{"training.segment": 4, "augmentation.cloud_noise": 0.0})
    data = clocked("cloud")
    batch = source(small.policy(config), data).draw(32, keyed_generator(0))
    times = batch.looks.state[..., 0].long()
    cloud, which, hand = batch.looks.frames["cloud"], batch.looks.which, batch.looks.hand
    assert len(cloud) == len(times.unique()) < times.numel() / 1.4, "segments share frames"
    assert torch.equal(hand[which], batch.looks.state[..., :3])
    assert cloud.shape[1:] == (8, 3), "augmentation.points of them"
    for row, frame in zip(which.flatten(), times.flatten(), strict=True):
        assert torch.isin(cloud[row], data.arrays["cloud"][frame]).all()


def test_noise_is_added_to_copies():
    config = small.tiny("short", "cloud", **{"augmentation.cloud_noise": 0.1})
    data = small.demonstrations("cloud")
    before = {key: array.clone() for key, array in data.arrays.items()}
    windows = source(small.policy(config), data)
    one, two = (windows.draw(16, keyed_generator(seed)).looks.frames["cloud"] for seed in (0, 1))
    assert not torch.equal(one[0], two[0])
    assert all(torch.equal(data.arrays[key], before[key]) for key in before)


def tensors(batch: Batch) -> list[torch.Tensor]:
    looks = batch.looks
    return [
        looks.state,
        looks.frames["cloud"],
        looks.which,
        looks.hand,
        batch.actions,
        batch.inside,
        *batch.extra.values(),
    ]


@pytest.mark.parametrize("kind", ["short", "long"])
def test_a_batch_depends_on_its_generator_alone(kind):
    config = small.tiny(kind, "cloud")
    windows = source(small.policy(config), clocked("cloud"))
    one = windows.draw(16, keyed_generator(3))
    torch.rand(9)
    windows.draw(5, keyed_generator(8))
    two = windows.draw(16, keyed_generator(3))
    for a, b in zip(tensors(one), tensors(two), strict=True):
        assert torch.equal(a, b)


def test_the_loss_is_a_weighted_cross_entropy():
    random = keyed_generator(0)
    logits, target = torch.randn(24, 11, generator=random), torch.randint(11, (24,), generator=random)
    plain = F.cross_entropy(logits, target)
    torch.testing.assert_close(token_loss(logits, target, torch.ones(24), None), plain)
    weight = torch.zeros(24)
    weight[8], weight[18] = 3.0, 1.0
    each = F.cross_entropy(logits, target, reduction="none")
    torch.testing.assert_close(token_loss(logits, target, weight, None), (3 * each[8] + each[18]) / 4)


def test_soft_labels_give_near_duplicates_a_share_and_far_codes_none():
    codes = torch.tensor([[0.0, 0], [0.1, 0], [5, 5], [5.1, 5], [9, 0]])
    soft = soft_targets(codes, 0.1)
    assert soft.shape == (6, 6)
    torch.testing.assert_close(soft.sum(1), torch.ones(6))
    assert soft[0, 1] > 0.4
    assert soft[0, 2:].max() < 1e-3
    assert (soft[:5, 5] == 0).all(), "[END] is no neighbour of a code"
    assert soft_targets(codes, 0.0) is None
    logits = torch.randn(6, 6, generator=keyed_generator(0))
    end = torch.full((6,), 5)
    torch.testing.assert_close(token_loss(logits, end, torch.ones(6), soft), F.cross_entropy(logits, end))
    sharp = soft_targets(codes, 1e-6)
    target = torch.tensor([0, 1, 2, 3, 4, 0])
    torch.testing.assert_close(token_loss(logits, target, torch.ones(6), sharp), F.cross_entropy(logits, target))


def test_short_draws_the_start_of_an_episode_more_often():
    config = small.tiny("short", **{"training.segment": 1, "training.early": 2.0})
    data = clocked()
    batch = source(small.policy(config), data).draw(2000, keyed_generator(0))
    time = newest(batch)
    episode = data.episode_of(time)
    share = (time - data.starts[episode]) / data.lengths[episode]
    assert 0.45 < (share < 0.25).float().mean() < 0.58, "half of them in the first quarter, by u ** 2"


def test_early_times_come_more_often():
    shares = {}
    for early in (1.0, 3.0):
        config = small.tiny("long", **CLEAN, **{"training.early": early, "policy.masking.start": 0.0})
        batch = source(small.policy(config), clocked()).draw(600, keyed_generator(0))
        shares[early] = (batch.extra["executed"] == 0).float().mean()
    assert shares[1.0] < 0.3
    assert shares[3.0] > 0.4


def test_the_first_frame_of_the_episode_stays_in_view():
    config = small.tiny("long", **CLEAN, **{"encoder.first": True, "encoder.history": 2})
    data = clocked()
    batch = source(small.policy(config), data).draw(100, keyed_generator(0))
    time = newest(batch)
    episode = data.episode_of(time)
    assert torch.equal(batch.looks.state[:, 0, 0].long(), data.starts[episode])
    assert torch.equal(batch.looks.state[:, 1, 0].long(), torch.maximum(time - 1, data.starts[episode]))
    assert (time - data.starts[episode]).max() > 10


@pytest.mark.parametrize("first", [False, True])
def test_a_foreign_frame_is_a_like_one_of_another_demonstration_and_changes_nothing_else(first):
    """Every episode passes through the same states, one after the other, so the like frame is known."""
    options = {**CLEAN, "encoder.first": first, "encoder.history": 2}
    data = small.demonstrations(lengths=(24, 24, 24))
    state = data.arrays["state"]
    state[:] = 0.0
    state[:, 0] = torch.arange(24).repeat(3) + torch.arange(3).repeat_interleave(24) / 100  # step and episode
    batches = {}
    for share in (0.0, 1.0):
        config = small.tiny("long", **options, **{"policy.masking.foreign_frame": share})
        batches[share] = source(small.policy(config), data).draw(200, keyed_generator(0))
    own, foreign = batches[0.0], batches[1.0]
    assert all(torch.equal(own.extra[name], foreign.extra[name]) for name in own.extra)
    assert torch.equal(own.actions, foreign.actions)
    seen, plain = foreign.looks.state, own.looks.state
    step, episode = seen[:, -1, 0].floor(), (seen[:, -1, 0] * 100 % 100).round()
    own_step, own_episode = plain[:, -1, 0].floor(), (plain[:, -1, 0] * 100 % 100).round()
    begun = own.extra["executed"] > 0
    assert torch.equal(step[begun], own_step[begun]), "the likest of so many is the same step"
    assert (episode[begun] != own_episode[begun]).all()
    assert torch.equal(seen[~begun], plain[~begun]), "the first plan is made from its own frame"
    if first:
        assert torch.equal(seen[:, 0], plain[:, 0]), "as is the memory of it"


def test_a_foreign_frame_moves_as_the_own_does():
    """Every episode rises and sinks through the same places: where it is does not tell which way it goes."""
    config = small.tiny("long", **CLEAN, **{"policy.masking.foreign_frame": 1.0, "encoder.history": 2})
    data = small.demonstrations(lengths=(24, 24, 24))
    data.arrays["state"][:] = 0.0
    data.arrays["state"][:, 0] = torch.cat([torch.arange(12), torch.arange(12).flip(0)]).repeat(3)
    windows = source(small.policy(config), data)
    time = torch.arange(24)
    time = time[(time % 24 != 0) & (time != 12)]  # at rest: which way is open
    alike = windows._alike(time, torch.zeros_like(time), keyed_generator(0))
    assert (data.episode_of(alike) > 0).all()
    assert torch.equal(alike % 24, time)


@pytest.mark.parametrize("kind", ["absolute", "displacement"])
def test_a_stale_plan_leaves_the_way_at_the_present_and_is_smooth(kind):
    actions = torch.zeros(300, 80, 4)
    now = torch.randint(1, 60, (300,), generator=keyed_generator(1))
    stale = led_aside(actions, now, 0.15, kind == "absolute", keyed_generator(2))
    way = stale[..., :2] if kind == "absolute" else stale[..., :2].cumsum(1)
    assert (stale[..., 2:] == 0).all()
    aside = way.norm(dim=-1)  # (B, T)
    assert (aside[torch.arange(80) <= now[:, None]] == 0).all()
    far = aside.amax(1)
    assert far.max() <= 0.4 * 0.15 + 1e-6
    assert far.median() > 0.01
    assert (aside.diff(dim=1).abs().amax(1) <= 0.06 * 1.5 / 4 + 1e-6).all(), "no jump"
    back = aside[:, -1] < 1e-6
    assert 0.4 < back.float().mean() < 0.9, "most come back, some go on to the end"


def test_a_batch_with_stale_plans_differs_in_what_is_seen_alone():
    batches = {}
    for share in (0.0, 1.0):
        config = small.tiny("long", **CLEAN, **{"policy.masking.stale_plan": share})
        batches[share] = source(small.policy(config), small.demonstrations()).draw(100, keyed_generator(0))
    own, stale = batches[0.0], batches[1.0]
    for name in ("clean", "executed"):
        assert torch.equal(own.extra[name], stale.extra[name])
    valid = stale.extra["target"] < small.tiny("long").policy.tokenizer.codes
    assert torch.equal(stale.extra["target"][valid], stale.extra["clean"][valid]), "the target is the new plan"
    assert torch.equal(own.actions, stale.actions)
    assert torch.equal(own.looks.state, stale.looks.state)
    assert not torch.equal(own.extra["tokens"], stale.extra["tokens"])


def test_the_span_is_of_where_ways_lead():
    data = small.demonstrations(lengths=(24, 12))
    data.arrays["action"][:] = torch.tensor([1.0, 0.5, 7.0])  # a place, or one step aside again and again
    assert span(data.saying(actions="absolute")) == 0.0
    assert span(data) == pytest.approx((23 + 11) / 2)


def test_foreign_frames_need_a_state():
    config = small.tiny("long", "cloud", **{"policy.masking.foreign_frame": 0.5, "encoder.frame": "world"})
    data = small.demonstrations("cloud")
    del data.arrays["state"]
    with pytest.raises(ConfigError, match="goes by the robot's state, which the demonstrations lack"):
        source(small.policy(config, data), data)


def test_foreign_frames_need_another_demonstration():
    config = small.tiny("long", **{"policy.masking.foreign_frame": 0.5})
    with pytest.raises(ConfigError, match="there is one only"):
        source(small.policy(config), small.demonstrations(lengths=(24,)))


@pytest.mark.parametrize(("length", "past"), [(5, 0), (6, 2)])
def test_plain_windows_pair_frames_with_actions_and_tell_what_lies_inside(length, past):
    """The source of a policy without one of its own."""
    config, data = small.tiny(**{"encoder.history": 3}), clocked()
    windows = Windows(data, config.encoder, config.augmentation, config.training, length, past)
    batch = windows.draw(200, keyed_generator(0))
    time = newest(batch)
    episode, start = data.episode_of(time), time - past
    assert torch.equal(batch.looks.state[:, :, 0].long(), data.history(time, 3))
    assert torch.equal(batch.actions, data.action_windows(start, length, episode))
    steps = start[:, None] + torch.arange(length)
    assert torch.equal(
        batch.inside, data.episode_of(steps.clamp_min(0)) == torch.where(steps < 0, -1, episode[:, None])
    )
    assert batch.inside.any(1).all()
    assert not batch.inside.all()
    assert batch.extra == {}
    assert batch.looks.instruction is None


def test_the_instruction_of_a_window_is_that_of_its_episode():
    texts = ("push", "lift", "push", "turn it", "lift")
    config, data = small.tiny(), dataclasses.replace(clocked(), instructions=texts)
    windows = Windows(data, config.encoder, config.augmentation, config.training, 4)
    batch = windows.draw(100, keyed_generator(0))
    known = DataSpec.of(data).instructions
    assert known == ("lift", "push", "turn it")
    found = [known[place] for place in batch.looks.instruction]
    assert found == [texts[episode] for episode in data.episode_of(newest(batch))]
    assert torch.equal(batch.to(torch.device("cpu")).looks.instruction, batch.looks.instruction)
