"""A confidence study as a page of its own, and as a section of the report."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from mgp import __version__
from mgp.evaluation.confidence_parts import KEPT, Flips, Kind, Masking, Measure
from mgp.evaluation.confidence_record import ConfidenceStudy
from mgp.evaluation.statistics import wilson
from mgp.files import write_atomic
from mgp.report.confidence_figures import confidence_curve, difference_curve, flip_bars
from mgp.report.paper import paper_flips, paper_success
from mgp.report.sections import MAP_COLOURS, plan_maps
from mgp.report.template import render
from mgp.report.words import seen_in

MEASURES: dict[Measure, str] = {
    "standing": "pending tokens, as they stood",
    "standing_next": "tokens executed next, as they stood",
    "refined": "pending tokens, refined",
    "refined_next": "tokens executed next, refined",
}
CURVES: tuple[tuple[str, Measure, str], ...] = (
    ("p", "standing", "Confidence of the pending tokens"),
    ("n", "standing_next", "Confidence of the tokens executed next"),
)
# a row of the table of confidences, for scenes that begin to move: (name, measure, driver, whether only of seeds that
# are solved in the scene that stands still)
CONFIDENCES: tuple[tuple[str, Measure, str, bool], ...] = (
    *((name, key, "atr", False) for key, name in MEASURES.items()),
    ("pending tokens, plan kept", "standing", KEPT, False),
    ("the same, seeds solved when still", "standing", KEPT, True),
)
# (name, masking, driver, whether this masking drove): as in the paper each drives, and only of these it has figures;
# and the surest on the plans that ATR came by
FLIPS: tuple[tuple[str, Masking, str, bool], ...] = (
    ("least sure (ATR)", "low", "atr", True),
    ("surest", "high", "inverse", True),
    ("surest, on ATR's plans", "high", "atr", False),
)
NONE = "-"


def write_study(study: ConfidenceStudy, output: Path) -> Path:
    """One HTML page that needs no other file and no network. Returns `output`."""
    facts = [
        f"trained on {study.trained_on}",
        f"from {seen_in(study)}",
        f"{len(study.seeds)}{'' if study.overlap else ' unseen'} episodes, seeds {study.seeds[0]} to {study.seeds[-1]}",
        f"{study.mask_ratio:.0%} of the pending tokens masked",
        f"temperature {study.temperature:g}",
    ]
    if study.overlap:
        facts.append(study.overlap)
    page = render(
        "page",
        title=f"How sure MGP-Long is: {study.env}",
        lead=facts,
        sections=[study_section(study, "study", maps=len(study.traces))],
        footer=[f"mgp {__version__}", f"commit {study.commit}", study.machine],
    )
    write_atomic(output, page.encode())
    return output


def study_section(study: ConfidenceStudy, prefix: str, maps: int = 1) -> Markup:
    """Flip rates, confidence over the replanning steps, and the maps of the first episodes."""
    start = study.start
    scenes = {"scene that moves" if study.twin else study.env: study.env}
    scenes |= {"scene that stands still": study.twin} if study.twin else {}
    curves = [
        confidence_curve({name: study.curve(env, measure) for name, env in scenes.items()}, title, start, prefix + key)
        for key, measure, title in CURVES
    ]
    bars = [_flip_bars(study, "code", f"{prefix}f"), _flip_bars(study, "action", f"{prefix}a")]
    return render(
        "study",
        title=f"Confidence study: {study.env}, from {seen_in(study)}",
        caution=study.overlap,
        flips=flip_rows(study),
        bars=[bar for bar in bars if bar is not None],
        action_change=study.action_change,
        confidences=confidence_rows(study),
        curves=[*curves, *_difference(study, f"{prefix}d")],
        moves=start is not None,
        maps=[
            (f"MGP-Long on {study.env}, seed {seed}", plan_maps(trace, f"{prefix}m{seed}", start))
            for seed, trace in list(study.traces.items())[:maps]
        ],
        colours=MAP_COLOURS,
    )


def flip_rows(study: ConfidenceStudy) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and text cells: the paper's figures stand beside the flips by code, which it defines."""
    by_action = f"flips by action (> {study.action_change:g})"
    head = ("masked", "flips by code", "paper, by code (disassemble)", by_action, f"success, {seen_in(study)}")
    rows: list[tuple[str, ...]] = []
    for name, masking, driver, drove in FLIPS:
        successes, count = study.success(study.env, driver)
        low, high = wilson(successes, count)
        paper = paper_flips(masking) if drove else None
        reached = f"{successes / count:.2f} [{low:.2f}, {high:.2f}]" if drove and count else NONE
        theirs = paper_success("MGP-Long", "metaworld/disassemble") if masking == "low" else None
        rows.append(
            (
                f"{study.mask_ratio:.0%} {name}",
                _share(study.flips(masking, driver)),
                NONE if paper is None else f"{paper:.1%}, " + (f"success {theirs:.2f}" if theirs else "less success"),
                _share(study.flips(masking, driver, "action")),
                reached,
            )
        )
    return head, rows


def confidence_rows(study: ConfidenceStudy) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and text cells: mean confidence before and after the scene begins to move, or over all replanning steps."""
    if study.moves_from is None:
        head: tuple[str, ...] = ("mean confidence of", "all replanning steps")
        return head, [(name, _number(study.before_after(study.env, key)[0])) for key, name in MEASURES.items()]
    head = ("mean confidence of", f"up to step {study.moves_from}", "after, it moves")
    head += ("static: up to then", "static: after", "moving - static, after") if study.twin else ()
    rows = []
    for name, key, driver, solved in CONFIDENCES:
        scenes = [study.env, *([study.twin] if study.twin else [])]
        values = [value for scene in scenes for value in study.before_after(scene, key, driver)]
        cells = [NONE if solved else _number(value) for value in values]
        if study.twin:
            drop = study.drop(key, driver, solved)
            cells.append(NONE if drop is None else f"{drop[0]:+.4f} ± {drop[1]:.4f} ({drop[2]} episodes)")
        rows.append((name, *cells))
    return head, rows


def _difference(study: ConfidenceStudy, prefix: str) -> list[Markup]:
    """None if the scene does not move."""
    kinds = {"plan kept": KEPT, "plan edited (ATR)": "atr"}
    curves = {name: study.difference("standing", driver, solved=True) for name, driver in kinds.items()}
    title = "Pending tokens, moving - static"
    drawn = any(curve.replans for curve in curves.values())
    return [difference_curve(curves, title, study.start, prefix)] if drawn else []


def _flip_bars(study: ConfidenceStudy, kind: Kind, prefix: str) -> Markup | None:
    """None if nothing was masked."""
    rates = []
    for name, masking, driver, drove in FLIPS:
        flips = study.flips(masking, driver, kind)
        if flips.masked:
            rates.append((name, flips.rate, paper_flips(masking) if drove and kind == "code" else None))
    return flip_bars(rates, f"Flips by {kind}, % of masked", prefix) if rates else None


def _share(flips: Flips) -> str:
    return f"{flips.rate:.1%} ({flips.flipped} of {flips.masked})" if flips.masked else NONE


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.4f}"
