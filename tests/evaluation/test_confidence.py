"""The confidence study on tiny networks and a toy scene: what is counted, and that looking changes nothing."""

from __future__ import annotations

import csv
import dataclasses
import functools

import numpy as np
import pytest

import small
from mgp.errors import ConfigError, DataError, SeedOverlapError
from mgp.evaluation.confidence import study_confidence
from mgp.evaluation.confidence_parts import KEPT, Outcome, Replan
from mgp.evaluation.confidence_record import ConfidenceStudy
from mgp.evaluation.episode import Recording
from mgp.evaluation.probe import ACTION_CHANGE, Probed
from mgp.evaluation.rollout import rollout
from wave_robot import MOVES_FROM, WaveEnv, make_wave

SEEDS = [100, 101, 102]


@functools.cache
def network():
    return small.policy(small.tiny("long"))


def load(**sampling):
    return network().with_sampling(temperature=1.0, **sampling)  # at 0 nothing is drawn, so nothing could be disturbed


@pytest.fixture(scope="module")
def study() -> ConfidenceStudy:
    return study_confidence(
        load,
        "toy/moving",
        "state",
        seeds=SEEDS,
        demonstration_seeds=range(5),
        workers=1,
        progress=False,
        make=make_wave,
    )


@pytest.mark.parametrize("scoring", ["atr", "inverse"])
def test_probing_changes_neither_actions_nor_plans(scoring):
    recording = Recording(tuple(SEEDS), every=0)
    seen = []
    for policy in (load(scoring=scoring), Probed(load(scoring=scoring))):
        envs = [WaveEnv("toy/moving") for _ in SEEDS]
        results = rollout(policy, envs, SEEDS, recording=recording)
        assert all(result.pictures is None for result in results)
        traces = [[result.trace.tokens, result.trace.confidence, result.trace.masked] for result in results]
        seen.append((np.concatenate([env.actions for env in envs]), traces))
    np.testing.assert_array_equal(seen[0][0], seen[1][0])
    for plain, probed in zip(seen[0][1], seen[1][1], strict=True):
        assert all(map(np.array_equal, plain, probed))


@pytest.mark.parametrize(("scoring", "own", "other"), [("atr", "low", "high"), ("inverse", "high", "low")])
def test_the_probe_of_the_own_masking_is_what_comes_to_pass_and_the_other_masks_as_many(scoring, own, other):
    (result,) = rollout(Probed(load(scoring=scoring)), [WaveEnv("toy/static")], [101], recording=Recording((101,), 0))
    trace = result.trace
    changed = trace.tokens[1:] != trace.tokens[:-1]
    np.testing.assert_array_equal(getattr(trace, f"{own}_masked")[1:], trace.masked[1:] > 0)
    np.testing.assert_array_equal(getattr(trace, f"{own}_flipped")[1:], changed)
    assert changed.any()
    pending = len(trace.tokens[0]) - trace.executed
    for name in (own, other):
        masked = getattr(trace, f"{name}_masked")
        assert not masked[0].any(), "the first plan replaces nothing"
        assert masked.sum(1)[1:].tolist() == [round(0.7 * count) for count in pending[1:]]
        assert not (masked & (np.arange(len(masked[0])) < trace.executed[:, None])).any()
    # each masks its end of the same ranking
    for masked, sign in ((trace.low_masked, 1), (trace.high_masked, -1)):
        for row in range(1, len(masked)):
            score = sign * trace.standing[row, trace.executed[row] :]
            inside = masked[row, trace.executed[row] :]
            assert inside.all() or score[inside].max() <= score[~inside].min()
    assert np.isnan(trace.standing[0]).all()


def test_both_maskings_drive_and_the_static_twin_is_run_beside(study):
    kinds = {(one.env, one.driver) for one in study.outcomes}
    both = {(scene, driver) for scene in ("toy/moving", "toy/static") for driver in ("atr", KEPT)}
    assert kinds == both | {("toy/moving", "inverse")}
    assert len(study.outcomes) == 5 * len(SEEDS)
    assert (study.moves_from, study.twin, study.start) == (MOVES_FROM, "toy/static", 1 + MOVES_FROM / 4)
    for driver in ("atr", "inverse"):
        low, high = study.flips("low", driver), study.flips("high", driver)
        assert low.masked == high.masked > 0
        assert 0 <= low.rate <= 1
        assert 0 < study.flips("low", driver, "action").flipped <= low.masked
    assert study.action_change == ACTION_CHANGE
    assert list(study.traces) == SEEDS
    ends = {one.seed: one.steps for one in study.outcomes if (one.env, one.driver) == ("toy/moving", "atr")}
    assert all(len(study.traces[seed].executed) == -(-ends[seed] // 4) for seed in SEEDS), "no plan after the end"


def test_a_kept_plan_is_edited_until_the_scene_moves_and_scored_until_the_end():
    seen = []
    for scene in ("toy/moving", "toy/static"):
        env = WaveEnv(scene)
        policy = Probed(load(), keep_after=MOVES_FROM)
        (result,) = rollout(policy, [env], [101], recording=Recording((101,), 0))
        seen.append((np.array(env.actions), result.trace))
    length = min(len(actions) for actions, _ in seen)
    np.testing.assert_array_equal(*(actions[:length] for actions, _ in seen))
    for _, trace in seen:
        edited = trace.masked.any(1)
        assert edited.tolist() == [4 * look <= MOVES_FROM for look in range(len(edited))]
        assert edited.sum() > 1, "some looks come before the motion"
        pending = [row[done:] for row, done in zip(trace.standing, trace.executed, strict=True)]
        assert all(np.isfinite(row).all() for row in pending[1:])
    # the same plan, another observation
    moved = int(edited.sum())
    assert np.nanmax(np.abs(seen[0][1].standing[moved:][:2] - seen[1][1].standing[moved:][:2])) > 0


def test_until_the_scene_moves_the_twins_are_the_same_and_then_they_differ(study):
    for measure in ("standing", "standing_next", "refined", "refined_next"):
        moving, static = study.before_after("toy/moving", measure), study.before_after("toy/static", measure)
        assert moving[0] == static[0] is not None
        assert moving[1] != static[1]
        difference, _, episodes = study.drop(measure)
        assert episodes == len(SEEDS)
        assert difference == pytest.approx(moving[1] - static[1], abs=0.02)
    kept = study.difference("standing", KEPT)
    before = [mean for replan, mean in zip(kept.replans, kept.mean, strict=True) if replan <= study.start]
    assert before == [0] * len(before) != []
    assert any(kept.mean[len(before) :])


def test_means_before_and_after_by_hand():
    def row(env: str, seed: int, step: int, value: float | None) -> Replan:
        return Replan(env, "atr", seed, step // 4 + 1, step, value, value, value, value, 10, 4, 3, 10, 1, 0)

    moving = [row("m", 0, 0, None), row("m", 0, 4, 0.8), row("m", 0, 8, 0.6), row("m", 0, 12, 0.2), row("m", 1, 8, 0.4)]
    static = [row("s", 0, 0, None), row("s", 0, 4, 0.8), row("s", 0, 8, 0.7), row("s", 1, 8, 0.8)]
    outcomes = tuple(Outcome(env, "atr", seed, seed == 0, 16) for env in ("m", "s") for seed in (0, 1))
    study = ConfidenceStudy("m", "m", "s", 4, 4, 0.7, 0.0, 0.05, outcomes, tuple(moving + static), {})
    # after 4 steps nothing has moved yet; step 12 counts for nothing, as the static episode had ended by then
    assert study.before_after("m", "standing") == (0.8, 0.5)
    assert study.before_after("s", "standing") == (0.8, pytest.approx(0.75))
    mean, error, count = study.drop("standing")
    assert (mean, error, count) == (pytest.approx(-0.25), pytest.approx(0.15), 2)
    assert study.flips("low") == (20, 50)
    assert study.flips("low").rate == 0.4
    assert study.flips("high").rate == 0.1
    assert study.flips("low", kind="action") == (15, 50)
    assert study.flips("high", kind="action").rate == 0
    assert study.success("m") == (1, 2)
    difference = study.difference("standing")
    assert (difference.replans, difference.mean) == ([3], [pytest.approx(-0.25)])
    assert (difference.low, difference.high) == ([pytest.approx(-0.4)], [pytest.approx(-0.1)])
    assert study.drop("standing", solved=True) == (pytest.approx(-0.1), pytest.approx(float("nan"), nan_ok=True), 1)
    assert study.difference("standing", solved=True).replans == [], "one seed has no standard error"
    assert study.drop("standing", KEPT) is None
    assert study.difference("standing", KEPT).replans == []
    curve = study.curve("m", "standing")
    assert (curve.replans, curve.mean) == ([2, 3, 4], [0.8, 0.5, 0.2])
    alone = dataclasses.replace(study, twin=None, moves_from=None)
    assert alone.before_after("m", "standing") == (0.5, None)
    assert alone.drop("standing") is alone.start is None


def test_what_is_saved_is_read_again_and_damage_is_named(study, tmp_path):
    study.save(tmp_path / "x=0.5")
    again = ConfidenceStudy.load(tmp_path / "x=0.5.json")
    assert (again.replans, again.outcomes, again.start) == (study.replans, study.outcomes, study.start)
    np.testing.assert_array_equal(again.traces[100].masked, study.traces[100].masked)
    with open(tmp_path / "x=0.5.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(study.replans)
    assert lines[0]["standing"] == ""
    for name in ("low_masked", "low_flipped", "low_flipped_action", "high_flipped_action"):
        assert int(lines[1][name]) == getattr(study.replans[1], name)
    for broken in ('{"format": 2, "replans": [', '{"format": 1, "replans": []}'):  # 1 had no flips by action
        (tmp_path / "y.json").write_text(broken)
        with pytest.raises(DataError, match="mgp analyze confidence"):
            ConfidenceStudy.load(tmp_path / "y.json")


def test_seeds_of_demonstrations_and_short_are_refused():
    with pytest.raises(SeedOverlapError, match="were used for demonstrations"):
        study_confidence(load, "toy/static", seeds=[3], demonstration_seeds=range(5), make=make_wave)
    short = functools.partial(small.policy, small.tiny("short"))
    with pytest.raises(
        ConfigError, match=r"MGP-Short keeps no plan.*mgp train --method mgp-long --task metaworld/reach"
    ):
        study_confidence(short, "toy/static", "state", seeds=[9], make=make_wave)
    policy = short()
    with pytest.raises(ConfigError, match="MGP-Short keeps no plan"):
        policy.what_if(small.frames(policy.config, 1, policy.history), policy.begin([9]))
