"""A calibration study as a page: a table of the scores, and their ROC curves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from markupsafe import Markup

from mgp import __version__
from mgp.evaluation.calibration_record import Calibration
from mgp.evaluation.confidence_parts import Flips, Masking
from mgp.evaluation.truth import WRONG
from mgp.files import write_atomic
from mgp.report.figures import plot_axes
from mgp.report.paper import paper_flips
from mgp.report.svg import INK, MUTED, OURS, PAPER, inline_svg, style
from mgp.report.template import render
from mgp.report.words import seen_in

NONE = "-"
COLOURS = (MUTED, OURS, PAPER)
HEAD = ("score", "AUROC, mean of the plans", "pooled", "flips, lowest masked", "flips, highest masked")
MASKINGS: tuple[Masking, Masking] = ("low", "high")


def write_calibration(study: Calibration, output: Path) -> Path:
    """One HTML page that needs no other file and no network. Returns `output`."""
    section = render(
        "calibration",
        title=f"Scores of tokens when the scene changes: {study.env}, from {seen_in(study)}",
        caution=study.overlap,
        scores=(HEAD, calibration_rows(study)),
        wrong=WRONG,
        drawn=[roc_curves(study, "roc")] if all(study.counts()[:2]) else [],
        said=told(study),
    )
    page = render(
        "page",
        title=f"Which tokens are doubted: {study.env}",
        lead=[f"trained on {study.trained_on}", f"from {seen_in(study)}", f"{len(study.seeds)} episodes"],
        sections=[section],
        footer=[f"mgp {__version__}", f"commit {study.commit}", study.machine],
    )
    write_atomic(output, page.encode())
    return output


def told(study: Calibration) -> str:
    """What the table counts, in a sentence."""
    bad, good, out = study.counts()
    looks = len({(one.seed, one.step) for one in study.tokens})
    return (
        f"{looks} plans: {bad} tokens are now wrong by more than {100 * WRONG:g} cm, {good} still right, {out} left"
        f" out; in {len(study.unsolved)} of {len(study.seeds)} episodes the expert could not go on. The policy masks by"
        f" {study.score} and solves {study.successes}"
    )


def calibration_rows(study: Calibration) -> list[tuple[str, ...]]:
    """Text cells; the paper's flip rates, by code on disassemble, are the last row."""
    rows = []
    for score in study.scores:
        figure = study.figure(score)
        error = "" if figure.error is None else f" ± {figure.error:.3f}"
        mean = NONE if figure.mean is None else f"{figure.mean:.3f}{error} ({figure.plans} plans)"
        flips = [
            f"{_share(study.flip_rate(score, masking))}, by action {_share(study.flip_rate(score, masking, 'action'))}"
            for masking in MASKINGS
        ]
        rows.append((score, mean, NONE if figure.pooled is None else f"{figure.pooled:.3f}", *flips))
    return [*rows, ("paper (disassemble)", NONE, NONE, *(f"{paper_flips(masking) or 0:.1%}" for masking in MASKINGS))]


def roc_curves(study: Calibration, prefix: str) -> Markup:
    """Of the tokens of all plans: how many of the wrong ones are below a bar, by how many of the right ones are."""
    known = [one for one in study.tokens if one.wrong is not None]
    bad = np.array([bool(one.wrong) for one in known])
    with style():
        figure, axes = plot_axes("Now wrong and below the bar", "still right, below the bar")
        axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8)
        for score, colour in zip(study.scores, COLOURS, strict=False):
            values = np.array([one.scores[score] for one in known])
            bars = np.concatenate([[-np.inf], np.unique(values)])[:, None]
            below = values[None] <= bars
            axes.plot(below[:, ~bad].mean(1), below[:, bad].mean(1), color=colour, linewidth=1.5, label=score)
        axes.legend(labelcolor=INK, fontsize=9)
        return inline_svg(figure, prefix, "ROC curves of the scores, pooled over all plans")


def _share(flips: Flips) -> str:
    return f"{flips.rate:.1%}" if flips.masked else NONE
