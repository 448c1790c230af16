import csv
import json
import shutil
from pathlib import Path

import pytest
from html_reader import Reader

from mgp.errors import ConfigError, DataError
from mgp.evaluation import Evaluation
from mgp.report import write_report

ALERT = '<script>alert("x")</script>'


@pytest.fixture
def run(runs, tmp_path) -> Path:
    """A copy to be spoilt."""
    return Path(shutil.copytree(runs[1], tmp_path / "run"))


@pytest.mark.parametrize("part", ["config.json", "summary.json", "metrics.csv", "evals.csv"])
@pytest.mark.parametrize("damage", ["gone", "garbage"])
def test_a_lost_part_is_named_and_the_rest_shown(run, part, damage):
    if damage == "gone":
        (run / part).unlink()
    else:
        (run / part).write_bytes(b'\xff\x00{"a": [1,\n,,"')
    text = write_report([run], run / "report.html").read_text()
    Reader(text)
    assert "Not shown" in text
    assert part in text.split("Not shown")[1]
    assert "16 of 20" in text


def test_evaluations_in_training_that_nobody_asked_for_are_not_missed(run):
    (run / "evals.csv").unlink()
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"training": {"eval_every": 0}}))
    assert "Not shown" not in write_report([run], run / "report.html").read_text()


def test_evaluations_that_are_gone_or_broken_are_named(run):
    (file,) = (run / "eval").glob("*.json")
    file.write_text('{"format": 1}')
    text = write_report([run], run / "report.html").read_text()
    assert "is no evaluation of mgp" in text
    assert "No evaluation was found" in text
    assert "tokenizer loss" in text
    shutil.rmtree(run / "eval")
    assert "holds no evaluation: run `mgp eval" in write_report([run], run / "report.html").read_text()


def test_lines_of_metrics_without_figures_are_counted(run):
    with (run / "metrics.csv").open("a") as file:
        file.write("policy,5000,1,nan,0\npolicy,x,1,1,0\npolicy,5010\n")
    assert "3 of 603 lines hold no usable figures" in write_report([run], run / "report.html").read_text()


def test_pictures_that_are_gone_leave_the_figures(run):
    (file,) = (run / "eval").glob("*.npz")
    file.unlink()
    text = write_report([run], run / "report.html").read_text()
    assert "No rollout was recorded with pictures" in text
    assert "Heat-map" in text


def test_what_comes_from_files_is_escaped(run):
    (run / "config.json").write_text(json.dumps({"method": ALERT, "task.name": ALERT, "seed": "<b>"}))
    lines = [["stage", "step", "seconds", "loss"], [f'{ALERT}$\\frac{{"', "1", "1", "1"], [ALERT, "2", "1", "1"]]
    with (run / "metrics.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    (file,) = (run / "eval").glob("*.json")
    content = json.loads(file.read_text())
    content |= {"method": ALERT, "task": ALERT, "observation": ALERT, "machine": ALERT, "commit": ALERT}
    content["variant"] = {ALERT: ALERT}
    file.write_text(json.dumps(content))
    text = write_report([run], run / "report.html").read_text()
    reader = Reader(text)
    assert "script" not in reader.tags
    assert text.count("&lt;script&gt;") > 8


@pytest.mark.parametrize("change", [{"training_minutes": "x"}, {"latency": [{}]}, {"method": 3}, {"variant": []}])
def test_fields_of_the_wrong_type_are_refused(run, change):
    (file,) = (run / "eval").glob("*.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DataError, match="is no evaluation"):
        Evaluation.load(file)
    assert "is no evaluation" in write_report([run], run / "report.html").read_text()


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"is no run: it has none of config\.json"):
        write_report([tmp_path], tmp_path / "report.html")
    with pytest.raises(DataError, match="is no folder"):
        write_report([tmp_path / "nowhere"], tmp_path / "report.html")
    with pytest.raises(ConfigError, match="at least one run"):
        write_report([], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
