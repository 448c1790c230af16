"""The confidence study as a page of its own and in the report."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from browser import CHROMIUM, Browser
from html_reader import Reader
from made_up_run import trace

from mgp.evaluation.confidence_parts import KEPT, Outcome, Replan
from mgp.evaluation.confidence_record import ConfidenceStudy
from mgp.report import write_report
from mgp.report.confidence import write_study

MOVING, STATIC = "metaworld-dynamic/basketball-midway", "metaworld/basketball"


def made_up(twin: str | None = STATIC) -> ConfidenceStudy:
    random = np.random.default_rng(0)
    seeds, env = range(40_000, 40_004), MOVING if twin else "metaworld/disassemble"
    kinds = [(env, "atr"), (env, "inverse")] + ([(twin, "atr"), (env, KEPT), (twin, KEPT)] if twin else [])
    replans = [
        Replan(
            *(name, driver, seed, step // 12 + 1, step),
            *(None if step == 0 else value, None if step == 0 else value / 2, value, value / 2),
            *((0,) * 6 if step == 0 else (30, 18, 9, 30, 6, 3)),
        )
        for name, driver in kinds
        for seed in seeds
        for step in range(0, 120, 12)
        for value in [random.uniform(0.6, 0.7) - 0.3 * (name == MOVING and step > 50)]
    ]
    outcomes = tuple(Outcome(name, driver, seed, seed % 2 == 0, 120) for name, driver in kinds for seed in seeds)
    traces = {seed: trace(10, 50, random) for seed in seeds[:2]}
    return ConfidenceStudy(
        env,
        STATIC,
        twin,
        50 if twin else None,
        12,
        0.7,
        0.0,
        0.05,
        outcomes,
        tuple(replans),
        traces,
        "0123",
        "A machine",
    )


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


@pytest.mark.parametrize("twin", [STATIC, None])
def test_the_page_of_a_study_is_whole_and_has_its_figures(twin, tmp_path):
    text = write_study(made_up(twin), tmp_path / "study.html").read_text()
    reader = Reader(text)
    assert all(address.startswith(("data:", "#")) for address in reader.addresses)
    assert "script" not in reader.tags
    assert len(reader.ids) == len(set(reader.ids))
    for label, times in (
        ("Heat-map of token confidence", 2),
        ("Map of masked tokens", 2),
        ("Confidence of the pending tokens over", 1),
        ("Confidence of the tokens executed next over", 1),
        ("Pending tokens, moving - static", 1 if twin else 0),
        ("Flips by code", 1),
        ("Flips by action", 1),
    ):
        assert text.count(f'aria-label="{label}') == times
    for figure in re.findall(r"<svg .*?</svg>", text, re.S):
        ElementTree.fromstring(figure)
    said = words(text)
    assert "flips by code paper, by code (disassemble) flips by action (&gt; 0.05) success, oracle clouds" in said
    row = "60.0% (648 of 1080) 60.6%, success 0.86 30.0% (324 of 1080) 0.50 [0.15, 0.85]"
    assert f"70% least sure (ATR) {row}" in said
    assert "70% surest, on ATR&#39;s plans 20.0% (216 of 1080) - 10.0% (108 of 1080)" in said
    assert "changes by more than 0.05" in said
    marks = text.count("stroke-dasharray: 8,4")
    assert ("up to step 50" in said, marks) == ((True, 7) if twin else (False, 0)), "a mark where it begins to move"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the page is only parsed")
def test_the_page_of_a_study_opens_in_a_browser(tmp_path):
    page = write_study(made_up(), tmp_path / "study.html")
    with Browser() as browser:
        for width in (1200, 390):
            browser.open(page, width)
            assert browser.ask("document.documentElement.scrollWidth") <= width
            drawn = "[...document.querySelectorAll('.figures svg')].map(s => s.getBBox().width * s.clientWidth)"
            areas = browser.ask(drawn)
            assert len(areas) == 9
            assert min(areas) > 0
        assert browser.complaints() == []


def test_the_report_shows_a_study_if_the_run_has_one_and_names_a_broken_one(runs, tmp_path):
    run = Path(shutil.copytree(runs[1], tmp_path / "run"))
    assert "Confidence study" not in write_report([run], tmp_path / "report.html").read_text()
    made_up().save(run / "analysis" / "confidence-basketball-seed40000")
    (run / "analysis" / "confidence-other.json").write_text("{")
    text = write_report([run, run], tmp_path / "report.html").read_text()
    reader = Reader(text)
    assert len(reader.ids) == len(set(reader.ids))
    assert text.count(f"<h2>Confidence study: {MOVING}") == 2
    assert "confidence-other.json is no confidence study" in text.split("Not shown")[1]
