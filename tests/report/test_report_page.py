import base64
import io
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from browser import CHROMIUM, Browser
from html_reader import Reader
from PIL import Image

from mgp.report import write_report


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory) -> Path:
    return write_report(runs, tmp_path_factory.mktemp("page") / "report.html")


def test_the_page_is_well_formed_and_needs_nothing_else(page):
    text = page.read_text()
    reader = Reader(text)
    assert all(address.startswith(("data:", "#")) for address in reader.addresses)
    assert "script" not in reader.tags
    assert "@import" not in text
    assert not re.findall(r"url\((?!#)", text)
    assert len(reader.ids) == len(set(reader.ids))
    assert {address[1:] for address in reader.addresses if address.startswith("#")} <= set(reader.ids)
    assert page.stat().st_size < 3_000_000


def test_the_page_has_its_figures(page):
    text = page.read_text()
    for label in (
        "Heat-map of token confidence",
        "Map of masked tokens",
        "tokenizer loss",
        "policy loss",
        "success while",
    ):
        assert f'aria-label="{label}' in text
    figures = re.findall(r"<svg .*?</svg>", text, re.S)
    for figure in figures:
        ElementTree.fromstring(figure)
    assert text.count('class="animation"') == 2
    for address in re.findall(r'src="data:image/webp;base64,([^"]*)"', text):
        Image.open(io.BytesIO(base64.b64decode(address))).verify()


def test_the_tables_say_ours_and_the_paper_s(page):
    text = re.sub(r"<[^>]+>", " ", page.read_text().split("<main>")[1].split("Rollouts")[0])
    words = " ".join(text.split())
    assert "MGP-Short assembly hard, from oracle clouds 0.95 0.76 to 0.99 1.00 DP3 0.99 19 of 20" in words
    assert "MGP-Long assembly hard, from oracle clouds 0.80 0.58 to 0.92 1.00 DP3 0.99 16 of 20" in words
    assert "Meta-World V3" in words
    assert "7.9 ms p95 9.4 ms 0.66 ms 134 ms 31.2 ms p95 36.0 ms 530 ms 3 / 135" in words


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the page is only parsed")
def test_the_page_opens_in_a_browser_and_shows_its_figures(page):
    with Browser() as browser:
        for width, dark in ((1200, False), (1200, True), (390, False)):
            browser.open(page, width, dark=dark)
            wide, high = browser.ask("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
            assert wide <= width  # nothing to scroll sideways, on a phone neither
            assert high > 1000
            shown = "i => i.complete && i.naturalWidth && i.getBoundingClientRect().width"
            assert browser.ask(f"[...document.images].every({shown})")
            assert browser.ask("document.images.length") > 4
            drawn = "[...document.querySelectorAll('.figures svg')].map(s => s.getBBox().width * s.clientWidth)"
            areas = browser.ask(drawn)
            assert len(areas) == 12
            assert min(areas) > 0
            ink = browser.ask("getComputedStyle(document.querySelector('.figures text')).fill")
            assert (sum(map(int, re.findall(r"\d+", ink)[:3])) > 384) == dark  # figures follow the theme
        assert browser.complaints() == []
        assert all(address.startswith(("file:", "data:")) for address in browser.requests())


def test_many_runs_stay_small(runs, tmp_path):
    generator = np.random.default_rng(0)
    (file,) = (runs[0] / "eval").glob("*.npz")
    noise = {"pictures_10000": generator.integers(0, 256, (30, 200, 200, 3), np.uint8)}  # the worst there is to pack
    folders = [Path(shutil.copytree(runs[0], tmp_path / f"run{number}")) for number in range(3)]
    for folder in folders:
        np.savez(folder / "eval" / file.name, **noise)
    assert write_report(folders, tmp_path / "report.html").stat().st_size < 3_000_000
