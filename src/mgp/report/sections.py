"""The sections of the page, each HTML. What comes from files is escaped here or where it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mgp.evaluation.episode import EpisodeResult
from mgp.evaluation.record import Evaluation
from mgp.evaluation.statistics import mean_of_top
from mgp.policies.base import PlanTrace
from mgp.report.figures import MASK_COLOURS, confidence_map, loss_curve, mask_map, success_curve
from mgp.report.pictures import animation, spread, still
from mgp.report.run_folder import Run
from mgp.report.tables import latency_table, success_table

PICTURE_BYTES = 1_900_000  # for all rollouts together; base64 adds a third, and the page is to stay below 3 MB
ROLLOUTS = 12  # shown at most, and as many plans


def success(evaluations: Sequence[Evaluation]) -> str:
    if not evaluations:
        return section("Success", _note("No evaluation was found in these runs."))
    key = (
        '<p class="key"><span class="dot"></span>ours, last checkpoint, success at any step '
        '<span class="bar"></span>95 % Wilson interval <span class="stroke"></span>paper</p>'
        "<p>Where the scene is Meta-World's, ours is of Meta-World V3, and the paper's of V2 and the mean of the five "
        "best evaluations of each training run. Other scenes are built after the paper's description.</p>"
    )
    return section("Success", success_table(evaluations) + key)


def latency(evaluations: Sequence[Evaluation]) -> str:
    timed = [one for one in evaluations if one.latency]
    if not timed:
        return section("Latency", _note("No latency was measured in these runs.")) if evaluations else ""
    key = (
        "<p>Batch 1, median over the replans of a full-length episode. A step is a replan divided by the actions it "
        "gives; "
        "a sequence is the sum over the episode; <i>looking</i> is making the observations the plan sees. "
        "Paper: ms per step / per sequence on an RTX 4090; the two differ by a factor of 45, about the number of "
        "replans in an episode, so that its step compares best with our replan.</p>"
    )
    return section("Latency", latency_table(timed) + key)


def rollouts(evaluations: Sequence[Evaluation]) -> str:
    recorded = [(one, episode) for one in evaluations for episode in one.episodes if episode.pictures is not None]
    if not recorded:
        return section("Rollouts", _note("No rollout was recorded with pictures.")) if evaluations else ""
    shown = recorded[:ROLLOUTS]
    parts = [_rollout(one, episode, PICTURE_BYTES // len(shown)) for one, episode in shown]
    return section("Rollouts", "".join(parts) + _left_out(len(recorded) - len(shown), "rollout"))


def _rollout(one: Evaluation, episode: EpisodeResult, budget: int) -> str:
    pictures = episode.pictures
    assert pictures is not None
    steps = episode.picture_steps if len(episode.picture_steps) == len(pictures) else tuple(range(len(pictures)))
    outcome = f"success at step {episode.success_step}" if episode.success else f"no success in {episode.steps} steps"
    name = escape(f"{one.method} on {one.task}, seed {episode.seed}")
    stills = {index: still(pictures[index]) for index in spread(len(pictures))}
    budget -= sum(map(len, stills.values())) * 3 // 4
    strip = "".join(
        f'<figure><img src="{address}" alt="{name}, step {steps[index]}">'
        f"<figcaption>{steps[index]}</figcaption></figure>"
        for index, address in stills.items()
    )
    return (
        f'<article><h3>{name}<span class="tag {"good" if episode.success else "bad"}">{outcome}</span></h3>'
        f'<div class="film"><picture><source media="(prefers-reduced-motion: reduce)" srcset="{still(pictures[-1])}">'
        f'<img class="animation" src="{animation(pictures, budget)}" alt="{name}: animation"></picture>'
        f'<div class="strip">{strip}</div></div></article>'
    )


def plans(evaluations: Sequence[Evaluation]) -> str:
    traced = [(one, episode) for one in evaluations for episode in one.episodes if episode.trace is not None]
    parts = []
    for number, (one, episode) in enumerate(traced[:ROLLOUTS]):
        assert episode.trace is not None
        parts.append(
            f"<h3>{escape(f'{one.method} on {one.task}, seed {episode.seed}')}</h3>"
            + plan_maps(episode.trace, f"plan{number}")
        )
    if not parts:
        return ""
    return section("What the plan went through", "".join(parts) + MAP_KEY + _left_out(len(traced) - len(parts), "plan"))


def plan_maps(trace: PlanTrace, prefix: str, start: float | None = None) -> str:
    """Heat-map and mask map; `start`: the replanning step at which the scene begins to move, for a mark."""
    drawn = confidence_map(trace, f"{prefix}c", start) + mask_map(trace, f"{prefix}m", start)
    return f'<div class="figures">{drawn}</div>'


def _map_key() -> str:
    labels = {
        "executed": "executed prefix",
        "first": "masked at the first refinement",
        "second": "masked at the second too",
        "kept": "kept",
    }
    swatches = "".join(
        f'<span class="swatch" style="background:{MASK_COLOURS[name]}"></span>{label} '
        for name, label in labels.items()
    )
    return (
        f'<p class="key">{swatches}</p>'
        "<p>Each column is a replanning step: every token of the plan is scored under the new observation, and the "
        "least confident of those not yet executed are masked and filled in again. In the heat-map the line is the end "
        "of the executed prefix, and colours go by the logarithm of the confidence.</p>"
    )


MAP_KEY = _map_key()


def training(runs: Sequence[Run]) -> str:
    parts = []
    for number, run in enumerate(runs):
        figures = [
            loss_curve(points, f"{stage} loss", f"run{number}s{index}")
            for index, (stage, points) in enumerate(run.losses.items())
        ]
        best = ""
        if run.checks:
            figures.append(success_curve(run.checks, "success while training", f"run{number}e"))
            top = mean_of_top(rate for _, rate, _ in run.checks)
            count = min(5, len(run.checks))
            best = f" Mean of the {count} best evaluations while training, as the paper counts: <b>{top:.2f}</b>."
        minutes = run.summary.get("training_minutes", run.summary.get("minutes"))
        facts = [
            ("preset", run.setting("preset")),
            ("policy", run.setting("policy")),
            ("environment", run.setting("env.name")),
            ("observation", run.setting("env.observation")),
            ("seed", run.setting("seed")),
            ("training", f"{minutes:.1f} min" if isinstance(minutes, int | float) else minutes),
        ]
        listed = " · ".join(
            f"{name} <b>{escape(str(value))}</b>" for name, value in facts if isinstance(value, str | int | float)
        )
        drawn = f'<div class="figures">{"".join(figures)}</div>' if figures else _note("No training curves.")
        parts.append(f"<h3>{escape(run.name)}</h3><p>{listed}{'.' * bool(listed)}{best}</p>{drawn}")
    return section("Training", "".join(parts))


def missing(runs: Sequence[Run]) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for run in runs for note in run.missing)
    return section("Not shown", f'<ul class="note">{notes}</ul>') if notes else ""


def section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _left_out(count: int, what: str) -> str:
    return _note(f"{count} more {what}{'s' * (count != 1)} left out to keep the page small.") if count > 0 else ""


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'
