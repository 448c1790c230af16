import base64
import io
import re

import numpy as np
from PIL import Image

from mgp.evaluation import Evaluation
from mgp.report.figures import mask_map, thin
from mgp.report.paper import paper_latency, paper_level, paper_success
from mgp.report.pictures import animation, spread


def test_paper_figures():
    assert paper_success("MGP-Long", "metaworld/disassemble") == 0.86
    assert paper_success("MGP-w/o-SM", "metaworld/stick-push") == 1.0
    assert paper_success("MGP-Short", "metaworld/reach") == 0.44
    assert paper_success("MGP-Long", "metaworld/reach") is None
    assert paper_success("MGP-Short", "libero/reach") is None
    assert paper_level("metaworld/push") == "hard"
    assert paper_latency("MGP-Short") == (3, 135)
    assert paper_latency("MGP-Long") == (None, 80)
    assert paper_latency("random") == (None, None)


def test_animation_keeps_to_its_budget_and_shows_the_outcome():
    pictures = np.random.default_rng(0).integers(0, 256, (40, 64, 64, 3), np.uint8)
    rich, poor = animation(pictures, 10**9), animation(pictures, 20_000)
    assert len(poor) < len(rich) / 4
    with Image.open(io.BytesIO(base64.b64decode(rich.partition(",")[2]))) as image:
        assert image.n_frames == 40
    assert animation(pictures[:1], 10**9).startswith("data:image/webp")
    assert spread(40)[0] == 0
    assert spread(40)[-1] == 39
    assert spread(2) == [0, 1]


def test_curves_are_thinned_but_not_reordered():
    steps, losses = thin(np.stack([np.arange(10_000)[::-1], np.ones(10_000)], 1).astype(float))
    assert len(steps) <= 240
    assert (np.diff(steps) > 0).all()
    assert (losses == 1).all()


def test_mask_map_marks_executed_kept_and_masked(runs):
    """The picture in the figure is one pixel a cell, in the paper's colours."""
    (file,) = (runs[1] / "eval").glob("*.json")
    trace = Evaluation.load(file).episodes[0].trace
    data = re.search(r'base64,([^"]*)"', mask_map(trace, "x"))[1]
    cells = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")).transpose(1, 0, 2)  # (R, N, 3)
    assert cells.shape[:2] == trace.tokens.shape
    colours = {0: (255, 255, 255), 1: (0, 0, 0), 2: (154, 154, 154)}
    for step in range(len(cells)):
        for token in range(cells.shape[1]):
            executed = token < trace.executed[step]
            expected = (247, 168, 196) if executed else colours[trace.masked[step, token]]
            assert tuple(cells[step, token]) == expected
