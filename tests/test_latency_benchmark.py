"""`python -m benchmarks.latency`, small: who takes part, what is written, and when."""

from __future__ import annotations

import pytest
from benchmarks import latency

from mgp.evaluation.csv_table import read
from mgp.evaluation.idle import Others
from small import demonstrations, tiny_of

LINE = {"method": "mgp-short", "tokens": "2", "points": "512", "run": "5", "engine": "openvino"}


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(latency, "get_config", lambda method, task: tiny_of(method, "cloud"))
    monkeypatch.setattr(latency, "demonstrated", lambda episodes, points=16: demonstrations("cloud"))
    monkeypatch.setattr("mgp.evaluation.idle.time.sleep", lambda seconds: None)


@pytest.mark.parametrize("engine", ["torch", pytest.param("onnxruntime", marks=pytest.mark.slow)])
def test_a_small_run_times_every_engine_and_the_growth(engine, tiny, capsys, tmp_path):
    words = ["--busy", "--rounds", "1", "--seconds", "0.001", "--points", "512", "--growth", "8"]
    words += ["--engines", engine, "--output", str(tmp_path / "x.csv"), "--plot", str(tmp_path / "x.svg")]
    assert latency.main(words) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == list(latency.PRINTED)
    cells, engines = [row.split() for row in rows], list(dict.fromkeys(["torch", engine]))
    lines = cells[: cells.index([])]
    assert [row[0] for row in lines] == [method for method in ("mgp-short", "mgp-long", "mgp-long") for _ in engines]
    assert [engine for row in lines for engine in row if engine in engines] == engines * 3
    assert lines[-1][3] == str(latency.PAPER_RUN) != lines[-len(engines) - 1][3]
    growth = cells[cells.index(["growth"]) + 2 :]
    assert [row[:2] for row in growth[: len(engines)]] == [["mgp-long", "8"]] * len(engines)
    assert not list(tmp_path.iterdir()), "what a busy machine says is not written"


def test_an_idle_machine_writes_table_and_picture(monkeypatch, tmp_path):
    lines = [{**LINE, "replan_p50": "1.2", "step_p50": "0.24"}]
    growth = [{**LINE, "tokens": str(n), "replan_p50": str(n / 50)} for n in (50, 100)]
    monkeypatch.setattr(latency, "check_idle", lambda allowed: None)
    monkeypatch.setattr(latency, "measure", lambda options: (lines, growth, Others(0.0)))
    monkeypatch.setattr("mgp.evaluation.speed_table.commit", lambda: "0123456789ab")
    paths = tmp_path / "latency.csv", tmp_path / "growth.svg"
    assert latency.main(["--output", str(paths[0]), "--plot", str(paths[1])]) == 0
    columns, written = read(paths[0])
    assert columns == list(latency.COLUMNS)
    assert [line["tokens"] for line in written] == ["2", "50", "100"]
    assert "tokens of a plan" in paths[1].read_text() or paths[1].stat().st_size > 1000


def test_targets_are_judged_with_512_points():
    lines = [
        {**LINE, "step_p50": "0.24"},
        {**LINE, "engine": "torch", "step_p50": "1.1"},
        {**LINE, "points": "1024", "engine": "other", "step_p50": "0.1"},
        {**LINE, "method": "mgp-long", "sequence_p50": "80"},
    ]
    short, long = latency.targets(lines).splitlines()
    assert short == "mgp-short: step_p50 at most 0.3 ms, best 0.24; met by openvino (run 5)"
    assert long.endswith("best 80; met by none")


def test_a_busy_machine_is_refused_at_once(monkeypatch, capsys):
    monkeypatch.setattr("mgp.evaluation.idle._others", lambda begin, end: 1.2)
    monkeypatch.setattr("mgp.evaluation.idle.time.sleep", lambda seconds: None)
    monkeypatch.setattr(latency, "measure", None)  # nothing is begun
    assert latency.main([]) == 2
    assert "other processes used 1.20 cores" in capsys.readouterr().err
