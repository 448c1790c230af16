"""Gaze: what it learns to see, and how a plan is led by what was seen."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import small
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.errors import ConfigError
from mgp.policies.files import load_checkpoint
from mgp.policies.mgp import MGP
from mgp.policies.mgp.config import MGPConfig
from mgp.policies.mgp.gaze import AHEAD, ASIDE, COVERED, EVERY, RADIUS, Aside, Gaze, GazeWindows, gaze_loss, on_the_way
from mgp.policies.mgp.policy import LongMemory
from mgp.training.loop import Trainer

STEPS = 100


class Says(Gaze):
    """Sees the same everywhere."""

    def __init__(self, *by: float):
        super().__init__(3)
        self.said = torch.tensor(by)

    def forward(self, cloud: Tensor, places: Tensor, ways: Tensor) -> Tensor:
        return self.said.expand(*places.shape[:2], 2)


def straight(batch: int = 1) -> Tensor:
    """Plans (B, STEPS, 3) a centimetre a step along x."""
    return torch.arange(STEPS)[None, :, None] * torch.tensor([0.01, 0.0, 0.0]).expand(batch, 1, 3)


def look(aside: Aside, gaze: Gaze, now: int, plan: Tensor | None = None, hand: float | None = None) -> None:
    """By everybody, with the hand where the plan is now."""
    plan = straight(len(aside.by)) if plan is None else plan
    at = plan[:, now] if hand is None else torch.tensor([[hand, 0.0, 0.0]]).expand(len(plan), 3)
    aside.look(gaze, torch.arange(len(plan)), torch.zeros(len(plan), 8, 3), at, plan[:, now:], now)


def test_the_same_is_seen_wherever_it_stands():
    torch.manual_seed(0)
    gaze, cloud, places = Gaze(6), torch.rand(2, 64, 6), torch.rand(2, 3, 3)
    ways, away = torch.rand(2, 3, 18), torch.tensor([0.4, -0.2, 0.0])
    moved = torch.cat([cloud[..., :3] + away, cloud[..., 3:]], dim=-1)
    torch.testing.assert_close(gaze(cloud, places, ways), gaze(moved, places + away, ways))


def test_what_is_far_from_a_place_is_not_seen():
    torch.manual_seed(0)
    gaze, places, ways = Gaze(3), torch.zeros(1, 1, 3), torch.zeros(1, 1, 18)
    one = torch.full((1, 16, 3), RADIUS)
    assert torch.equal(gaze(one, places, ways), gaze(2 * one, places, ways))
    assert not torch.equal(gaze(one, places, ways), gaze(0.1 * one, places, ways))


def test_a_way_does_not_tell_where_it_lies():
    plan = torch.rand(2, STEPS, 3, generator=keyed_generator(0))
    at = torch.tensor([[3, 50], [20, 99]])
    places, ways = on_the_way(plan, at)
    assert torch.equal(places[1, 0], plan[1, 20])
    torch.testing.assert_close(on_the_way(plan + 0.3, at)[1], ways, atol=1e-5, rtol=0)


def test_a_plan_is_led_aside_gradually_and_no_further_than_is_looked():
    aside = Aside(1, STEPS, torch.device("cpu"))
    look(aside, Says(0.04, -0.02), 0, hand=-1.0)
    assert torch.allclose(aside.by[0, EVERY - 1 : AHEAD], torch.tensor([0.04, -0.02]))
    assert not aside.by[0, AHEAD:].any()
    look(aside, Says(0.0, 0.0), 8, hand=-1.0)
    assert aside.by[0, 7:12, 0].tolist() == pytest.approx([0.04, 0.03, 0.02, 0.01, 0.0])


def test_where_the_hand_is_what_was_seen_before_holds():
    aside = Aside(1, STEPS, torch.device("cpu"))
    look(aside, Says(0.04, 0.0), 0, hand=-1.0)
    look(aside, Says(0.0, 0.0), 12)
    covered = round(COVERED / 0.01)  # steps
    assert torch.allclose(aside.by[0, 12 : 12 + covered - EVERY, 0], torch.tensor(0.04))
    assert not aside.by[0, 12 + covered + EVERY :].any()


def test_nothing_is_held_of_a_plan_that_was_changed_there():
    aside, plan = Aside(1, STEPS, torch.device("cpu")), straight()
    look(aside, Says(0.04, 0.0), 0, hand=-1.0)
    plan[:, :, 1] += 0.1
    look(aside, Says(0.0, 0.0), 12, plan)
    assert not aside.by[0, 12 + EVERY :].any()
    look(aside, Says(0.02, 0.0), 24, 2 * plan)
    assert torch.allclose(aside.by[0, 24 + EVERY : 24 + AHEAD, 0], torch.tensor(0.02)), "near the hand, too"


def test_only_the_plans_that_were_looked_at_change():
    aside = Aside(3, STEPS, torch.device("cpu"))
    rows, hand = torch.tensor([0, 2]), torch.full((2, 3), -1.0)
    aside.look(Says(0.01, 0.0), rows, torch.zeros(2, 8, 3), hand, straight(2), 0)
    assert aside.by.abs().sum((1, 2)).gt(0).tolist() == [True, False, True]


def test_a_plan_that_is_over_is_not_looked_at():
    aside = Aside(1, STEPS, torch.device("cpu"))
    look(aside, Says(0.04, 0.0), STEPS - EVERY + 1)
    assert not aside.by.any()


def places(count: int = 6, length: int = 40, seed: int = 0) -> Demonstrations:
    """The hand goes to a post that stands somewhere else each time, and the cloud shows the post."""
    random = np.random.default_rng(seed)
    state, action, cloud = [], [], []
    for _ in range(count):
        start, post = random.uniform(-0.3, 0.3, (2, 3)) * [1, 1, 0]
        way = start + (post - start) * np.minimum(np.arange(length + 1) / 20, 1)[:, None]
        state.append(np.concatenate([way[:-1], random.normal(size=(length, 6))], axis=1))
        action.append(way[1:])
        around = 0.03 * random.normal(size=(length, small.POINTS, 3)) * [0.3, 0.3, 1]
        cloud.append(post + around)
    parts = {"state": state, "action": action, "cloud": cloud}
    arrays = {key: torch.from_numpy(np.concatenate(values)).float() for key, values in parts.items()}
    meta = {**small.META, "actions": "absolute", "horizon": length, "points": 1, "hold_action": [None] * 3}
    return Demonstrations(arrays, torch.full((count,), length).cumsum(0), tuple(range(count)), meta)


def windows(demonstrations: Demonstrations) -> GazeWindows:
    return GazeWindows(demonstrations, small.tiny("long", "cloud", **{"policy.gaze": 5}), "cloud")


def test_training_moves_places_aside_and_asks_for_the_way_back():
    batch = windows(places()).draw(64, keyed_generator(1))
    far = batch.extra["aside"].norm(dim=1)
    assert 0.5 * ASIDE < far.max() <= ASIDE
    back = Says(*(-batch.extra["aside"][0]).tolist())
    one = batch._replace(
        extra={key: value[:1] for key, value in batch.extra.items()},
        actions=batch.actions[:1],
        looks=batch.looks._replace(
            frames={"cloud": batch.looks.frames["cloud"][:1]},
            hand=batch.looks.hand[:1] + 1,  # type: ignore[index]
        ),
    )
    assert gaze_loss(back, one, "cloud")[0] < 1e-6
    assert gaze_loss(Says(0.0, 0.0), one, "cloud")[0] > 0.1 * float(far[0])


def test_it_learns_where_a_thing_is_that_it_has_not_seen_there():
    torch.manual_seed(0)
    gaze = Gaze(3)
    optimizer = torch.optim.AdamW(gaze.parameters(), lr=2e-3)
    source = windows(places(20))
    for step in range(200):
        loss = gaze_loss(gaze, source.draw(32, keyed_generator(step)), "cloud")[0]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    post, aside = torch.tensor([[[0.1, -0.2, 0.0]]]), torch.tensor([[0.04, 0.02, 0.0], [-0.05, 0.0, 0.0]])
    cloud = post[0] + 0.03 * torch.randn(2, small.POINTS, 3, generator=keyed_generator(1)) * torch.tensor([0.3, 0.3, 1])
    still = (post + aside).transpose(0, 1).expand(2, STEPS, 3)  # a plan that stays there
    with torch.no_grad():
        seen = gaze(cloud, *on_the_way(still, torch.full((2, 1), 50)))[:, 0]
    assert (seen + aside[:, :2]).norm(dim=1).max() < 0.015


def policy(gaze: int, **changes) -> MGP:
    config = small.tiny(
        "long", "cloud", **{"encoder.frame": "reach", "policy.gaze": gaze, "task.demonstrations": 6, **changes}
    )
    made = MGP.build(config, places())
    made.eval()
    return made


def plans(gaze: Gaze | None, looks: list[bool], **sampling) -> list[np.ndarray]:
    """The actions of one episode after each look, by the same weights; `looks`: was it observed."""
    made = policy(0).with_sampling(**sampling)
    made.gaze, made.gaze_key = gaze, "cloud"
    memory, out = made.begin([0]), []
    for step, seen in enumerate(looks):
        frames = small.frames(made.config, 1, made.frames, seed=step)
        frames["state"] = frames["state"] + 5.0  # a hand that covers nothing
        chunk = made.plan(frames, memory, np.array([seen]))
        memory.last = chunk.actions[:, chunk.run - 1]
        out.append(chunk.actions[0])
    return out


def test_long_is_led_at_each_look_and_goes_on_so_through_a_gap():
    looks = [True, False, True]
    plain, still, led = (plans(gaze, looks) for gaze in (None, Says(0.0, 0.0), Says(0.01, 0.0)))
    for one, other in zip(plain, still, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    for one, other in zip(plain, led, strict=True):
        by = (other - one)[EVERY:]
        assert by[:, 0].max() == pytest.approx(0.01, abs=1e-4)  # less where the demonstrated limit is
        assert np.abs(by[:, 1:]).max() < 1e-5


def test_full_is_led_once():
    made = policy(0).with_sampling(variant="full")
    made.gaze, made.gaze_key = Says(0.01, 0.0), "cloud"
    memory = made.begin([0])
    made.plan(small.frames(made.config, 1, made.frames), memory)
    assert memory.aside is not None
    first = memory.aside.by.clone()
    made.gaze = Says(0.02, 0.0)
    made.plan(small.frames(made.config, 1, made.frames), memory)
    assert first.any()
    assert torch.equal(memory.aside.by, first)


def test_there_is_no_gaze_without_places_or_clouds():
    assert policy(5).gaze is not None
    assert policy(0).gaze is None
    for observation in ("state", "cloud"):  # of displacements
        config = small.tiny("long", observation, **{"policy.gaze": 5})
        assert MGP.build(config, small.demonstrations(observation)).gaze is None
    joints = places()  # absolute, but no places of the hand
    joints.arrays["action"] += 1.0
    assert MGP.build(policy(5).config, joints).gaze is None


def test_it_is_a_stage_of_its_own_whose_weights_then_stay():
    made = policy(5)
    names = [stage.name for stage in made.stages()]
    assert names == ["tokenizer", "gaze", "policy"]
    trained = [set(made.begin_stage(stage)) for stage in made.stages()]
    assert all(name.startswith("gaze.") for name in trained[1])
    assert not trained[1] & trained[2]
    assert set.union(*trained) == set(dict(made.named_parameters()))


def test_what_was_learned_is_in_the_checkpoint(tmp_path):
    made = policy(5)
    assert made.gaze is not None
    before = made.gaze.state_dict()
    path = Trainer(made.config, places(), tmp_path, quiet=True).train()
    loaded = load_checkpoint(path)
    assert isinstance(loaded, MGP)
    assert loaded.gaze is not None
    after = loaded.gaze.state_dict()
    assert before.keys() == after.keys()
    assert all(not torch.equal(after[key], before[key]) for key in before)
    memory = loaded.begin([0])
    frames = {key: array[None, :2].numpy() for key, array in places().arrays.items() if key != "action"}
    loaded.plan(frames, memory)
    assert isinstance(memory, LongMemory)
    assert memory.aside is not None
    assert memory.aside.by.any()


def test_a_window_of_short_has_no_plan_to_lead():
    with pytest.raises(ConfigError, match=r"gaze = 5 corrects a plan .*set it to 0"):
        MGPConfig(horizon="short", gaze=5)


def test_clouds_are_augmented_as_for_the_policy():
    source = windows(places())
    points = source.config.augmentation.points
    assert 0 < points < small.POINTS
    assert source.draw(4, keyed_generator(0)).looks.frames["cloud"].shape[1] == points
