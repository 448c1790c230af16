"""Which tokens a shift has made wrong, and how well scores tell them, in a scene whose right way is known."""

from __future__ import annotations

import functools
import types

import gymnasium as gym
import numpy as np
import pytest
import torch

import small
from mgp.envs.base import RobotEnv
from mgp.errors import ConfigError, DataError
from mgp.evaluation.calibration import study_calibration, token_scores
from mgp.evaluation.calibration_record import Calibration, FlipCount, TokenScore
from mgp.evaluation.rollout import rollout
from mgp.evaluation.scored import NAMES, Scored, ScoredTrace
from mgp.evaluation.truth import apart, changed_at, experts_actions, led_to, play, wrong
from mgp.report.calibration import calibration_rows, told, write_calibration

SEEDS = [100, 101, 102]
OBJECT, SHIFTED, BASKET = np.array([0.3, 0.0]), np.array([0.3, 0.08]), np.array([0.3, 0.3])
SHIFT_AT, SPEED = 6, 0.02  # control steps taken, metres a step


class FetchEnv(RobotEnv):
    """A hand that goes to an object and takes it to a basket. In "toy/shifted" the object is moved once."""

    actions = "absolute"

    def __init__(self, name: str, horizon: int = 60):
        self.name, self.horizon = name, horizon
        self.static_twin = "toy/still" if name == "toy/shifted" else None
        self.hold_action = np.zeros(small.ACTION, np.float32)
        self.action_space = gym.spaces.Box(-9, 9, (small.ACTION,))
        self.observation_space = gym.spaces.Dict({"state": gym.spaces.Box(-9, 9, (small.STATE["state"],))})

    def reset(self, *, seed=None, options=None):
        self.hand, self.object, self.held, self.steps, self.shifted_at = np.zeros(2), OBJECT, False, 0, None
        return self.observe(), {}

    def advance(self, action):
        if self.static_twin and self.steps == SHIFT_AT:
            self.object, self.shifted_at = SHIFTED, self.steps
        self.hand = np.array(action[:2], float)
        self.held = self.held or np.allclose(self.hand, self.object, atol=0.01)
        self.steps += 1
        success = self.held and np.allclose(self.hand, BASKET, atol=0.01)
        return 0.0, False, self.steps >= self.horizon, {"success": success}

    def observe(self):
        return {"state": np.array([*self.hand, *self.object, self.held, 0, 0], np.float32)}

    def expert(self):
        def act():
            way = (BASKET if self.held else self.object) - self.hand
            return np.array([*(self.hand + way * min(1, SPEED / max(np.linalg.norm(way), 1e-9))), 0.0], np.float32)

        return act


def make_fetch(name: str, observation: str = "state", **options) -> FetchEnv:
    return FetchEnv(name, **options)


# --- the truth ------------------------------------------------------------------------------------------------------


def test_pace_and_pauses_do_not_matter_and_the_way_does():
    line = np.stack([np.linspace(0, 1, 30), np.zeros(30), np.zeros(30)], 1)
    slow = np.repeat(line, 2, axis=0)
    waits = np.concatenate([np.repeat(line[:1], 6, axis=0), line])
    for other in (slow, waits):
        assert apart(line, other).max() < 1e-9
        assert apart(other, line).max() < 0.04, "cut where the expert is done"
    aside = line + np.array([0, 0.05, 0]) * (np.arange(30) >= 15)[:, None]
    distance = apart(aside, line)
    assert distance.shape == (30,)
    assert distance[:14].max() < 0.01
    assert distance[16:] == pytest.approx(0.05, abs=1e-6)


def test_displacements_are_compared_a_token_at_a_time():
    env = types.SimpleNamespace(unit=0.01, actions="displacement")
    actions = np.ones((6, 4))
    assert led_to(actions, env, 4)[:, 0] == pytest.approx([0.01, 0.02, 0.03, 0.04, 0.04, 0.04])
    env.actions = "absolute"
    assert led_to(actions, env, 4)[:, 0] == pytest.approx([0.01] * 6)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [(0.002, 0.05, True), (0.002, 0.003, False), (0.05, 0.05, None), (0.05, 0.001, False)],
)
def test_wrong_is_what_the_change_has_made_wrong(before, now, expected):
    assert wrong(before, now) is expected


def test_the_expert_goes_on_from_where_the_commands_lead_in_either_scene():
    env, twin = FetchEnv("toy/shifted"), FetchEnv("toy/still")
    first = experts_actions(twin, 0, np.zeros((0, small.ACTION)))
    executed = first[:8]
    assert play(env, 0, executed)
    assert changed_at(env) == SHIFT_AT
    there, here = experts_actions(twin, 0, executed), experts_actions(env, 0, executed)
    np.testing.assert_allclose(there, first[8:], atol=1e-6)
    assert np.abs(here[:, :2] - SHIFTED).sum(1).min() < 0.01
    assert experts_actions(twin, 0, first) is None, "the episode is over"
    assert experts_actions(FetchEnv("toy/still", horizon=10), 0, executed) is None, "and here it cannot be solved"


def test_the_tokens_on_the_way_to_the_old_place_are_wrong_and_those_at_the_basket_are_right():
    env, twin, per = FetchEnv("toy/shifted"), FetchEnv("toy/still"), 4
    plan = experts_actions(twin, 0, np.zeros((0, small.ACTION)))
    plan = plan[: len(plan) // per * per]
    size = len(plan) // per
    policy = types.SimpleNamespace(
        options=types.SimpleNamespace(tokenizer=types.SimpleNamespace(actions_per_token=per)),
        actions=lambda tokens: torch.from_numpy(plan)[None],
    )
    nothing = np.zeros((3, size))
    ranking = np.tile(np.linspace(0, 1, size), (3, len(NAMES), 1))
    trace = ScoredTrace(
        np.arange(3), nothing, nothing, nothing, nothing, ranking, np.zeros((3, 3, 2, 3), int),
        plan[:12].reshape(3, 4, -1),
    )  # fmt: skip
    rows = token_scores(policy, env, twin, trace, 0, 2)
    assert [row.token for row in rows] == list(range(2, 2 + len(rows)))
    assert {row.step for row in rows} == {8}
    assert all(row.before < 0.01 for row in rows), "it is the expert's own way in the scene as it was"
    kinds = [row.wrong for row in rows]
    assert kinds == [True, True, *[False] * (len(kinds) - 2)], "from (0.3, 0.08) on both ways are one"
    assert len(kinds) > 3
    assert rows[0].scores == {name: pytest.approx(ranking[2, 0, 2]) for name in NAMES}


# --- the study ------------------------------------------------------------------------------------------------------


@functools.cache
def network():
    return small.policy(small.tiny("long"))


def load(**sampling):
    return network().with_sampling(**sampling)


@pytest.fixture(scope="module")
def study() -> Calibration:
    options = {"workers": 1, "progress": False, "make": make_fetch}
    return study_calibration(load, "toy/shifted", "state", seeds=SEEDS, demonstration_seeds=range(5), **options)


def test_each_shifted_episode_is_looked_at_once_and_every_score_is_there(study):
    assert len({(one.seed, one.step) for one in study.tokens}) + len(study.unsolved) == len(SEEDS)
    assert {one.step for one in study.tokens} == {8}, "the first look after the shift at 6"
    assert study.scores == list(NAMES)
    for one in study.tokens:
        assert one.scores.keys() == set(NAMES)
        assert np.isfinite(list(one.scores.values())).all()
    for score in NAMES:
        low, high = (study.flip_rate(score, masking) for masking in ("low", "high"))
        assert low.masked == high.masked > 0
        assert study.flip_rate(score, "low", "action").flipped <= low.masked


def test_driving_is_not_disturbed():
    plain, scored = FetchEnv("toy/shifted"), FetchEnv("toy/shifted")
    rollout(load(), [plain], [100])
    rollout(Scored(load()), [scored], [100])
    np.testing.assert_array_equal(plain.hand, scored.hand)


def made_up(scores: dict[str, list[float]], now: list[float]) -> Calibration:
    tokens = [
        TokenScore(7 + place // 4, 8, place, 0.001, metres, {name: values[place] for name, values in scores.items()})
        for place, metres in enumerate(now)
    ]
    flips = [FlipCount(7, 1, name, masking, 10, 6, 3) for name in scores for masking in ("low", "high")]
    rest = ((7, 8), (9,), 1, "posterior", 0.7)
    return Calibration(
        "sorting/towel-nudged", "sorting/towel", "sorting/towel-nudged", *rest, tuple(tokens), tuple(flips)
    )


def test_auroc_is_of_each_plan_and_pooled_and_the_table_has_the_papers_flips(tmp_path):
    right, off = 0.002, 0.06
    study = made_up(
        {"posterior": [0.5] * 8, "leave-out": [0.9, 0.9, 0.1, 0.1, 0.3, 0.3, 0.2, 0.2]},
        [right, right, off, off, right, right, off, off],
    )
    figure = study.figure("leave-out")
    assert (figure.mean, figure.plans) == (1.0, 2)
    assert figure.pooled == 1.0
    assert study.figure("posterior").mean == 0.5
    assert study.counts() == (4, 4, 0)
    rows = calibration_rows(study)
    assert rows[1][1:3] == ("1.000 ± 0.000 (2 plans)", "1.000")
    assert rows[0][3] == "60.0%, by action 30.0%"
    assert rows[-1][3:] == ("60.6%", "15.1%")
    assert "4 tokens are now wrong by more than 1 cm" in told(study)
    page = write_calibration(study, tmp_path / "page.html").read_text()
    assert "ROC curves" in page
    assert "1.000 ± 0.000" in page


def test_nothing_to_tell_apart_is_no_figure():
    study = made_up({"posterior": [0.5] * 4}, [0.002] * 4)
    assert study.figure("posterior") == (None, None, 0, None)
    assert calibration_rows(study)[0][1:3] == ("-", "-")


def test_a_study_comes_back_from_its_file_and_tokens_are_a_csv(study, tmp_path):
    study.save(tmp_path / "c")
    assert Calibration.load(tmp_path / "c.json") == study
    lines = (tmp_path / "c.csv").read_text().splitlines()
    assert lines[0] == "seed,step,token,before,now,wrong,posterior,leave-out"
    assert len(lines) == 1 + len(study.tokens)
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(DataError, match="run `mgp analyze calibration` again"):
        Calibration.load(tmp_path / "c.json")


def test_a_scene_that_does_not_change_is_refused():
    with pytest.raises(ConfigError, match="no scene that changes"):
        study_calibration(load, "toy/still", "state", seeds=SEEDS, make=make_fetch)
