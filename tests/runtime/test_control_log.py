"""The log of an episode: what it tells, as a file, on the page and as a recording."""

from __future__ import annotations

import builtins
import json

import numpy as np
import pytest
from robots import Counting, controlled

import small
from mgp.errors import ConfigError, DataError
from mgp.report import write_report
from mgp.runtime import Controller, EnvRobot, Reading, Simulated, VirtualClock
from mgp.runtime.log import ControlLog, PlanNote, StepNote
from mgp.runtime.recording import Recording
from mgp.runtime.seams import seams
from wave_robot import WaveEnv


def a_log(observers=()) -> ControlLog:
    """MGP-Long with a delay of two steps, and a gap in what it sees."""
    clock = VirtualClock()

    class Blinking(EnvRobot):
        def observe(self):
            return None if 9 <= self.steps < 13 else super().observe()

    robot = Blinking(WaveEnv("toy/static"), 3, clock, full_length=True)
    policy = small.policy(small.tiny("long"))
    worker = Simulated(clock, 0.1)
    log = Controller(policy, robot, clock=clock, worker=worker, seed=3, observers=observers).run()
    log.success = robot.success_step is not None
    return log


def test_a_log_survives_its_file(tmp_path):
    log = a_log()
    again = ControlLog.load(log.save(tmp_path / "first"))
    assert (tmp_path / "first.json").exists()
    assert again.counts == log.counts
    assert again.total == len(again.steps) == 2 + small.HORIZON, "two steps before the first plan is there"
    assert again.events == log.events
    assert [one.asked for one in again.plans] == [one.asked for one in log.plans]
    for name in ("time", "age", "confidence", "held", "wanted", "given", "plan", "place"):
        np.testing.assert_allclose(again.array(name), log.array(name), atol=1e-6)
    np.testing.assert_array_equal(again.trace.tokens, log.trace.tokens)
    np.testing.assert_array_equal(again.trace.masked, log.trace.masked)
    assert (again.method, again.mode, again.rate, again.seed, again.success) == (
        "MGP-Long",
        "frozen",
        20.0,
        3,
        log.success,
    )


def test_a_log_tells_ages_plans_and_events():
    log = a_log()
    assert log.counts["missing"] == 4
    ages = log.array("age")
    np.testing.assert_allclose(ages[10:16], [0, 0.05, 0.1, 0.15, 0.2, 0], atol=1e-9)
    assert log.array("held")[:3].tolist() == [True, True, False]
    assert log.array("plan")[:3].tolist() == [-1, -1, 0]
    figures = log.summary()
    assert figures["steps"] == 2 + small.HORIZON
    assert figures["held"] == 2
    assert figures["plans"] == len(log.plans)
    assert figures["age_p50"] == 0


def test_an_endless_run_does_not_trace_for_ever(monkeypatch):
    whole = a_log()
    monkeypatch.setattr("mgp.runtime.controller.TRACED", 3)
    log = a_log()
    assert len(log.plans) == len(whole.plans) > 3, "as many plans"
    assert len(whole.trace.tokens) > 3
    np.testing.assert_array_equal(log.trace.tokens, whole.trace.tokens[:3])


@pytest.mark.parametrize("damage", ["{}", "[1]", "not json", '{"format": 9}'])
def test_a_broken_log_is_named(tmp_path, damage):
    path = tmp_path / "x.json"
    path.write_text(damage)
    with pytest.raises(DataError, match="is no log of a controller"):
        ControlLog.load(path)
    content = json.loads(a_log().save(tmp_path / "y").read_text())
    del content["steps"]["age"]
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="age"):
        ControlLog.load(path)


def test_an_endless_run_does_not_fill_the_memory():
    controller, _ = controlled(Counting())
    controller.log.steps = type(controller.log.steps)(maxlen=10)
    log = controller.run(steps=30)
    assert log.total == 30
    assert len(log.steps) == 10
    assert len(seams(log).steps) == 2, "those whose steps are still there"


# --- seams ------------------------------------------------------------------------------------------------------------


def test_jump_and_jerk_of_a_seam():
    log = ControlLog("x", 10.0, "naive", [None, 0.0])
    places = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]  # jumps by 1 at the seam, at step 5
    for value in places:
        log.steps.append(StepNote(0, 0, 0, 0, False, None, [float(value), 0.0], [0.0, 0.0]))
    log.total = len(places)
    log.plans.append(PlanNote(0, 0, 0, 0, 0, False, None, []))
    log.plans.append(PlanNote(3, 5, 0.2, 2, 2, False, None, [-1.0, 0.5]))
    found = seams(log)
    assert found.steps.tolist() == [5]
    assert found.jump.tolist() == [[1.0, 0.5]]
    # third differences of a step of 1: 1, -2, 1, a tenth of a second each
    np.testing.assert_allclose(found.jerk, [[2000.0, 0.0]])
    assert (found.inside == 0).all()
    assert len(found.inside) == len(places) - 3 - 3


def test_the_frozen_prefix_leaves_no_jump_at_the_seam():
    """Of a policy that is told what is run, and one that is not: a token that was begun is run to its end, or not."""
    policy = small.policy(small.tiny("long", **{"policy.sampling.mask_ratio": 1.0, "policy.sampling.temperature": 1.0}))
    jumps = {}
    for mode in ("frozen", "naive"):
        clock = VirtualClock()
        robot = EnvRobot(WaveEnv("toy/static"), 3, clock, full_length=True)
        log = Controller(policy, robot, clock=clock, worker=Simulated(clock, 0.3), mode=mode, limits=None).run()
        found = seams(log)
        begun = (found.steps - log.plans[0].came) % policy.options.tokenizer.actions_per_token > 0
        assert begun.sum() >= 2
        jumps[mode] = found.jump[begun].mean(1)
    assert (jumps["frozen"] == 0).all()
    assert jumps["naive"].mean() > 0.01


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_report_shows_episodes_under_a_controller(tmp_path):
    folder = tmp_path / "run"
    a_log().save(folder / "control" / "gap <b>")
    (folder / "control" / "broken.json").write_text("{}")
    page = write_report([folder], tmp_path / "report.html").read_text()
    assert "Under a controller" in page
    assert "run/gap &lt;b&gt;: MGP-Long, frozen, 20 Hz" in page
    assert "missing 4" in page
    assert "waiting 2" in page
    assert "Age of the observation, ms" in page
    assert "Confidence of the plan in hand" in page
    assert "Tokens masked for refinement" in page
    assert "broken.json is no log of a controller" in page


def test_a_run_without_a_controller_has_no_such_section(tmp_path):
    folder = tmp_path / "run"
    (folder / "eval").mkdir(parents=True)
    assert "Under a controller" not in write_report([folder], tmp_path / "report.html").read_text()


# --- a recording ------------------------------------------------------------------------------------------------------


def test_a_recording_holds_what_was_seen_planned_and_done(tmp_path):
    from rerun.chunk import RrdReader

    path = tmp_path / "episode.rrd"
    recording = Recording(path, unit=0.01)
    clock = VirtualClock()

    class Cloudy(WaveEnv):
        def observe(self):
            cloud = np.random.default_rng(self.steps).normal(0, 0.1, (small.POINTS, 3)).astype(np.float32)
            return {"state": np.resize(super().observe()["state"], 9), "cloud": cloud}

    class Blinking(EnvRobot):
        def observe(self):
            return None if self.steps == 6 else super().observe()

    policy = small.policy(small.tiny("long", "cloud"))
    robot = Blinking(Cloudy("toy/static"), 3, clock, full_length=True)
    log = Controller(policy, robot, clock=clock, worker=Simulated(clock, 0.1), observers=(recording,)).run()
    recording.close(log)
    assert path.stat().st_size > 10_000
    paths = {chunk.entity_path for chunk in RrdReader(path).stream()}
    wanted = {"world/cloud", "world/hand", "world/plan", "control/confidence", "control/age", "control/events"}
    wanted |= {"command/wanted", "command/given", "plan/confidence", "plan/masked", "state/state"}
    assert {f"/{name}" for name in wanted} <= paths


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch):
    find = builtins.__import__

    def without(name, *arguments, **options):
        if name.split(".")[0] == "rerun":
            raise ImportError("No module named 'rerun'")
        return find(name, *arguments, **options)

    import importlib

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ConfigError, match=r"pip install 'masked-generative-policy\[viz\]'"):
        Recording(tmp_path / "x.rrd")


def test_observers_are_shown_every_step():
    shown = []
    controller, robot = controlled(
        Counting(),
        reading=lambda step, now: None if step == 2 else Reading(robot.frame(), now, step),
        observers=(lambda controller, seen, note: shown.append((seen.kind, note.held, controller.log.total)),),
    )
    controller.run(steps=4)
    assert shown == [("", False, 1), ("", False, 2), ("missing", False, 3), ("", False, 4)]
