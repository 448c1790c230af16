"""What the page must say beside a figure: what was seen, what was checked, what the interval counts."""

import re
from dataclasses import replace

import numpy as np
import pytest
from html_reader import Reader
from made_up_run import evaluation, write_run

from mgp.evaluation import Evaluation
from mgp.report import write_report
from mgp.report.run_folder import read_run
from mgp.report.sections import compared, latency, rollouts, success


@pytest.fixture(scope="module")
def one() -> Evaluation:
    return evaluation("MGP-Long", 0.8, np.random.default_rng(0), 32)


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_a_success_from_oracle_clouds_says_so_wherever_it_stands(one):
    said = words(success([one]))
    assert said.startswith("Success from oracle clouds")
    assert "hard, from oracle clouds" in said
    assert "Oracle clouds are shared out" in said
    assert "MGP-Long on metaworld/assembly, oracle clouds, seed 10000 success at step" in words(rollouts([one]))


def test_other_sights_are_named_too(one):
    camera = replace(one, options={"cloud": "camera"})
    assert "Oracle" not in success([camera])
    assert words(success([camera])).startswith("Success from camera clouds")
    assert "Success from camera clouds, clouds by DP3&#39;s recipe and state" in success(
        [camera, replace(one, options={"cloud": "paper"}), replace(one, observation="state")]
    )


def test_a_run_says_what_its_curve_of_success_was_seen_from(tmp_path):
    run = write_run(tmp_path / "run")
    assert read_run(run).seen == "oracle clouds"
    page = write_report([run], tmp_path / "page.html").read_text()
    assert 'aria-label="success while training, oracle clouds' in page
    assert "as the paper counts, oracle clouds: <b>" in page
    (run / "config.json").write_text('{"task": {"observation": "cloud", "options": {"cloud": "camera"}}}')
    assert read_run(run).seen == "camera clouds"
    (run / "summary.json").write_text('{"options": {"cloud": "paper"}}')
    assert read_run(run).seen == "clouds by DP3's recipe", "as recorded, whatever was asked for"
    (run / "config.json").write_text("{}")
    assert read_run(run).seen == ""


def test_seeds_that_could_not_be_checked_are_named(one, tmp_path):
    unknown = "demonstration seeds unknown: overlap not checked"
    assert unknown not in success([one])
    assert unknown in success([replace(one, seeds_checked=False)])
    run = write_run(tmp_path / "run")
    assert "20 unseen episodes" in write_report([run], tmp_path / "page.html").read_text()
    replace(one, seeds_checked=False).save(run / "eval" / "MGP-Long.json")
    text = write_report([run], tmp_path / "page.html").read_text()
    assert f"20 episodes, {unknown}" in text
    assert "unseen episodes" not in text


def test_a_latency_of_a_busy_machine_is_marked(one):
    assert "the machine was not seen to be idle" in latency([one])
    quiet = tuple({**timing, "idle": True} for timing in one.latency)
    assert "not seen to be idle" not in latency([replace(one, latency=quiet)])


def test_trainings_are_pooled_with_an_interval_of_each_unit(one):
    failed = tuple(replace(e, success=False, success_step=None) for e in one.episodes[:4])
    others = [replace(one, training_seed=1), replace(one, training_seed=2, episodes=failed + one.episodes[4:])]
    said = words(compared([one, *others, one]))  # a run named twice counts once
    assert "MGP-Long assembly, oracle clouds 0 1 2 0.73 0.80 0.80 0.60 0.45 to 1.00 0.61 to 0.83" in said
    assert "training seed as the unit" in said
    assert compared([one, one]) == ""


def test_methods_are_compared_on_the_same_episodes(one):
    full = replace(
        one, method="MGP-Full", episodes=tuple(replace(e, success=e.success and e.seed % 2 == 0) for e in one.episodes)
    )
    said = words(compared([one, full]))
    assert "MGP-Long MGP-Full assembly, oracle clouds 8 8 0 4 0.008" in said
    moved = tuple(replace(e, seed=e.seed + 1) for e in full.episodes)
    for other in (replace(full, episodes=moved), replace(full, training_seed=1), replace(full, missing=0.5)):
        assert compared([one, other]) == "", "not the same episodes or conditions"


def test_every_figure_of_every_stage_is_drawn_whatever_its_name(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "metrics.csv").write_text(
        "stage,step,seconds,entropy,loss,<b>\nfit,1,0.1,0.5,2,\nfit,2,0.2,0.4,1,\ndistil,1,0.3,,3,7\ndistil,2,0.4,,2,8\n"
    )
    found = read_run(run)
    assert list(found.curves) == [("fit", "loss"), ("fit", "entropy"), ("distil", "loss"), ("distil", "<b>")]
    assert found.curves["distil", "<b>"] == [(1, 7), (2, 8)]
    assert found.missing == []
    text = write_report([run], tmp_path / "page.html").read_text()
    Reader(text)
    for name in ("fit loss", "fit entropy", "distil loss", "distil &lt;b&gt;"):
        assert f'aria-label="{name} over training steps' in text


def test_metrics_without_stages_are_drawn(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "metrics.csv").write_text("step,loss\n1,2\n2,1\n")
    assert list(read_run(run).curves) == [("training", "loss")]
