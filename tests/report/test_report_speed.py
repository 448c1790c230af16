"""The section on speed: figures of the table beside the paper's, and the picture."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from html_reader import Reader

from mgp.cli import main
from mgp.errors import DataError
from mgp.report import write_report

HEAD = (
    "policy,sizes,preset,threads,parameters,frames,run,replans,sequences,encode_p50,replan_p50,replan_p99,step_p50,"
    "step_p99,sequence_p50,sequence_p99,replan_ratio,step_ratio,sequence_ratio,paper_step,paper_sequence,paper_ratio,"
    "note,others,torch,commit,machine"
)
WHERE = "0.01,2.13,abc,A cpu"
LINES = (
    f"MGP-Short,released,paper-mgp-short,1,3540000,4,5,400,10,2.5,10,12,2,2.4,400,410,1,1,1,3,135,1.0,,{WHERE}",
    f"DP3,released,paper-dp3,1,262480000,4,8,5,0,3,3200,3300,400,412,80000,,320,200,200,145,6557,48.3,,{WHERE}",
    f"<b>,default,dp3,1,,2,8,5,9,,8,9,1,1.1,200,210,.8,.5,.5,,,,a <i> note,{WHERE}",
    f"MGP-Short,released,paper-mgp-short,2,3540000,4,5,400,10,2,8,12,1.6,2.4,320,330,1,1,1,3,135,1.0,,{WHERE}",
    f"DP3,released,paper-dp3,2,262480000,4,8,5,0,3,1600,1700,200,212,40000,,200,125,125,145,6557,48.3,,{WHERE}",
)
TRAINING = """method,stage,threads,parameters,batch,seconds_per_1000,minutes,task,level,level_step,level_minutes
mgp-short,tokenizer,1,50000,64,12.5,0.42,,,,
mgp-short,policy,1,1000000,128,110,3.67,metaworld/assembly,0.8,800,1.88
"""


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "speed.csv"
    path.write_text("\n".join([HEAD, *LINES]) + "\n")
    return path


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_the_section_says_ours_and_the_paper_s(table, runs):
    page = write_report(runs[:1], table.with_name("page.html"), table).read_text()
    Reader(page)
    said = words(page)
    assert "MGP-Short released 3.5M 4 frames 10.0 ms p99 12.0 ms encoding 2.5 ms 2.0 ms 5 a replan 400 ms" in said
    assert "DP3 released 262.5M 4 frames 3200 ms p99 3300 ms" in said
    assert "about 80000 ms 200 times a replan 320 times 1600 ms a step 125 times 145 / 6557 48.3 times" in said
    assert "2 threads" in said
    assert "untrained weights" in said
    assert "A cpu, torch 2.13, commit abc" in said
    assert "&lt;b&gt;" in page, "what comes from files is escaped"
    assert "a &lt;i&gt; note" in page
    assert "Success from" in said, "the runs are there too"


def test_the_picture_has_a_bar_for_each_policy_on_a_logarithmic_scale(table):
    page = write_report([], table.with_name("page.html"), table).read_text()
    (figure,) = [one for one in re.findall(r"<svg .*?</svg>", page, re.S) if "Milliseconds a step" in one]
    ElementTree.fromstring(figure)
    labels = re.findall(r">([^<>]+)</text>", figure)
    assert {"DP3, released", "MGP-Short, released", "400", "2"} <= set(labels)
    assert {"1", "10", "100"} <= set(labels), "ticks of a logarithmic scale"


def test_without_runs_it_is_a_page_of_its_own(table, capsys):
    page = table.with_name("page.html")
    main(["report", "--speed", str(table), "--output", str(page)])
    said = words(page.read_text())
    assert "Speed" in said
    assert "No evaluation was found" not in said
    assert "0 runs" not in said


def test_training_stands_beside_if_its_table_does(table):
    assert "Seconds a 1000 steps" not in write_report([], table.with_name("page.html"), table).read_text()
    table.with_name("speed_training.csv").write_text(TRAINING)
    said = words(write_report([], table.with_name("page.html"), table).read_text())
    assert "mgp-short policy 1.0M 128 110 3.67 metaworld/assembly 0.8 800 1.88" in said


def test_the_table_of_the_folder_is_shown_if_it_is_there(table, runs, monkeypatch):
    monkeypatch.chdir(table.parent)
    main(["report", str(runs[0].resolve())])
    assert "<h2>Speed</h2>" not in Path("report.html").read_text()
    Path("results").mkdir()
    table.rename("results/speed.csv")
    main(["report", str(runs[0].resolve())])
    assert "<h2>Speed</h2>" in Path("report.html").read_text()


def test_a_table_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"python -m benchmarks\.speed"):
        write_report([], tmp_path / "page.html", tmp_path / "none.csv")
