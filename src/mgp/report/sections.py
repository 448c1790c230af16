"""The sections of the page: what each shows, in words, rows and drawings, handed to its template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from mgp.evaluation.episode import EpisodeResult
from mgp.evaluation.record import Evaluation
from mgp.evaluation.statistics import mean_of_top
from mgp.policies.base import PlanTrace
from mgp.report import comparisons, tables
from mgp.report.figures import MASK_COLOURS, confidence_map, mask_map, success_curve, training_curve
from mgp.report.open_loop import open_loop
from mgp.report.pictures import animation, spread, still
from mgp.report.run_folder import RunFolder
from mgp.report.template import render
from mgp.report.words import episode_name, with_sight

PICTURE_BYTES = 1_900_000  # for all rollouts together; base64 adds a third, and the page is to stay below 3 MB
ROLLOUTS = 12  # shown at most, and as many plans and pairs
MAP_COLOURS = [
    (MASK_COLOURS["executed"], "executed prefix"),
    (MASK_COLOURS["first"], "masked at the first refinement"),
    (MASK_COLOURS["second"], "masked at the second too"),
    (MASK_COLOURS["kept"], "kept"),
]
NOTHING = Markup("")


def success(evaluations: Sequence[Evaluation]) -> Markup:
    return render("success", **tables.success(evaluations))


def compared(evaluations: Sequence[Evaluation]) -> Markup:
    """Over training seeds, and methods on the same episodes; nothing where there is nothing to compare."""
    means, found = comparisons.trainings(evaluations), comparisons.pairs(evaluations)
    parts = NOTHING
    if means:
        parts += render("trainings", title=with_sight("Success over training seeds,", evaluations), rows=means)
    if found:
        title = with_sight("The same episodes, solved", evaluations)
        parts += render("pairs", title=title, rows=found[:ROLLOUTS], more=len(found) - ROLLOUTS)
    return parts


def held_out(runs: Sequence[RunFolder]) -> Markup:
    """Predictions against recordings, of runs without a simulator."""
    values = open_loop(runs)
    return NOTHING if values is None else render("open_loop", **values)


def latency(evaluations: Sequence[Evaluation]) -> Markup:
    return render("latency", rows=tables.latency(evaluations)) if evaluations else NOTHING


def rollouts(evaluations: Sequence[Evaluation]) -> Markup:
    if not evaluations:
        return NOTHING
    recorded = [(one, episode) for one in evaluations for episode in one.episodes if episode.pictures is not None]
    shown = recorded[:ROLLOUTS]
    films = [_film(one, episode, PICTURE_BYTES // len(shown)) for one, episode in shown]
    return render("rollouts", films=films, more=len(recorded) - len(shown))


def _film(one: Evaluation, episode: EpisodeResult, budget: int) -> dict[str, Any]:
    pictures = episode.pictures
    assert pictures is not None
    steps = episode.picture_steps if len(episode.picture_steps) == len(pictures) else tuple(range(len(pictures)))
    stills = [(steps[index], still(pictures[index])) for index in spread(len(pictures))]
    budget -= sum(len(address) for _, address in stills) * 3 // 4
    return {
        "name": episode_name(one, episode),
        "success": episode.success,
        "outcome": f"success at step {episode.success_step}"
        if episode.success
        else f"no success in {episode.steps} steps",
        "last": still(pictures[-1]),
        "animation": animation(pictures, budget),
        "stills": stills,
    }


def plans(evaluations: Sequence[Evaluation]) -> Markup:
    traced = [(one, e, e.trace) for one in evaluations for e in one.episodes if e.trace is not None]
    shown = [
        (episode_name(one, episode), plan_maps(trace, f"plan{number}"))
        for number, (one, episode, trace) in enumerate(traced[:ROLLOUTS])
    ]
    return render("plans", plans=shown, more=len(traced) - len(shown), colours=MAP_COLOURS) if shown else NOTHING


def plan_maps(trace: PlanTrace, prefix: str, start: float | None = None) -> list[Markup]:
    """Heat-map and mask map; `start`: the replanning step at which the scene begins to move, for a mark."""
    return [confidence_map(trace, f"{prefix}c", start), mask_map(trace, f"{prefix}m", start)]


def training(runs: Sequence[RunFolder]) -> Markup:
    return render("training", runs=[_training(run, f"run{number}") for number, run in enumerate(runs)])


def _training(run: RunFolder, prefix: str) -> dict[str, Any]:
    sight = f", {run.seen}" if run.seen else ""
    figures = [
        training_curve(points, f"{stage} {figure}", f"{prefix}s{index}")
        for index, ((stage, figure), points) in enumerate(run.curves.items())
    ]
    if run.checks:
        figures.append(success_curve(run.checks, f"success while training{sight}", f"{prefix}e"))
    minutes = run.summary.get("training_minutes", run.summary.get("minutes"))
    facts = [
        ("method", run.setting("method")),
        ("environment", run.setting("task.name")),
        ("observation", run.setting("task.observation")),
        ("seed", run.setting("seed")),
        ("training", f"{minutes:.1f} min" if isinstance(minutes, int | float) else minutes),
    ]
    return {
        "name": run.name,
        "facts": [(name, value) for name, value in facts if isinstance(value, str | int | float)],
        "best": mean_of_top(rate for _, rate, _ in run.checks) if run.checks else None,
        "count": min(5, len(run.checks)),
        "seen": sight,
        "figures": figures,
    }


def missing(runs: Sequence[RunFolder]) -> Markup:
    notes = [note for run in runs for note in run.missing]
    return render("missing", notes=notes) if notes else NOTHING
