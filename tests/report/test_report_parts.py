import base64
import io
import re
from dataclasses import replace

import numpy as np
from PIL import Image

from mgp.evaluation import Evaluation
from mgp.evaluation.episode import EpisodeResult
from mgp.policies.base import PlanTrace
from mgp.report.figures import confidence_map, mask_map, thin
from mgp.report.paper import paper_latency, paper_level, paper_success
from mgp.report.pictures import animation, spread
from mgp.report.sections import success


def test_paper_figures():
    assert paper_success("MGP-Long", "metaworld/disassemble") == 0.86
    assert paper_success("MGP-w/o-SM", "metaworld/stick-push") == 1.0
    assert paper_success("MGP-Short", "metaworld/reach") == 0.44
    assert paper_success("MGP-Long", "metaworld/reach") is None
    assert paper_success("MGP-Short", "libero/reach") is None
    assert paper_success("MGP-Short", "metaworld/assembly", 0.35) == 0.15
    assert paper_success("MGP-Long", "metaworld/push", 0.7) == 0.38
    assert paper_success("MGP-Short", "metaworld/assembly", 0.5) is None, "a figure without dropouts is no stand-in"
    assert paper_success("MGP-Full", "metaworld/assembly", 0.5) == 0.3, "it looks once only"
    assert paper_success("MGP-Long", "metaworld-dynamic/basketball") == 1.0
    assert paper_success("MGP-Short", "buttons/on-off") == 0.0
    assert paper_level("metaworld/push") == "hard"
    assert paper_latency("MGP-Short") == (3, 135)
    assert paper_latency("MGP-Long") == (None, 80)
    assert paper_latency("random") == (None, None)
    assert paper_latency("QueST") == (None, None), "it was timed on LIBERO only"
    assert paper_latency("QueST", "LIBERO-90") == (17, None)
    assert paper_latency("MGP-Short", "LIBERO-90") == (5, None)


def test_a_policy_of_another_task_has_no_figure_in_the_paper():
    one = Evaluation("MGP-Long", "metaworld-dynamic/push", "cloud", (EpisodeResult(1, True, 3, 3, 1),))
    assert '<path class="paper"' in success([one])
    assert '<path class="paper"' not in success([replace(one, variant={"trained_on": "metaworld/push"})])


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


def test_the_heat_map_tells_small_confidences_apart_and_its_scale_names_them():
    confidence = np.array([[0, 0.001, 0.01, 0.1, 1.0]])
    drawn = confidence_map(PlanTrace(np.zeros(1, int), np.zeros((1, 5), int), confidence, np.zeros((1, 5), int)), "x")
    pictures = re.findall(r'base64,([^"]*)"', drawn)  # the map and its scale, in either order
    arrays = [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")).astype(int) for data in pictures
    ]
    (cells,) = [array[:, 0] for array in arrays if array.shape[:2] == (5, 1)]
    if cells[0].sum() > cells[-1].sum():  # the picture may be stored upside down
        cells = cells[::-1]
    steps = np.abs(np.diff(cells, axis=0)).sum(1)
    assert steps[0] == 0, "all below the scale look alike"
    assert steps[1:].min() > 80, "a factor of ten is plain to see"
    labels = re.findall(r">([^<>]+)</text>", drawn)
    assert all(label in labels for label in ("≤ 0.001", "0.01", "0.1", "1"))
