"""Episodes under a controller: a table of what went wrong and how it was met, and each episode over its steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from mgp.report.figures import plot_axes
from mgp.report.sections import MAP_COLOURS, NOTHING, plan_maps
from mgp.report.svg import MUTED, OURS, PINK, inline_svg, style
from mgp.report.template import render
from mgp.runtime.log import ControlLog
from mgp.runtime.seams import seams

SHOWN = 4  # episodes drawn; all are in the table
HEAD = ("Episode", "Steps", "Held", "Plans", "Late", "Age of sight", "Seam jump", "Jerk at seams", "Events")


def controlled(logs: Mapping[str, ControlLog]) -> Markup:
    """`logs` by name; nothing without any."""
    if not logs:
        return NOTHING
    drawn = [(name, _figures(log, f"control{number}")) for number, (name, log) in enumerate(logs.items())]
    return render(
        "control",
        head=HEAD,
        rows=[row(name, log) for name, log in logs.items()],
        episodes=drawn[:SHOWN],
        more=len(drawn) - SHOWN,
        maps=any(log.trace is not None for log in list(logs.values())[:SHOWN]),
        colours=MAP_COLOURS,
    )


def row(name: str, log: ControlLog) -> tuple[str, ...]:
    figures, found = log.summary(), seams(log)
    outcome = {True: ", success", False: ", no success", None: ""}[log.success]
    events = ", ".join(f"{kind} {count}" for kind, count in sorted(log.counts.items()))
    inside = np.median(found.inside) if found.inside.size else math.nan
    return (
        f"{name}: {log.method}, {log.mode}, {log.rate:g} Hz{outcome}",
        f"{figures['steps']:.0f}",
        f"{figures['held']:.0f}",
        f"{figures['plans']:.0f}",
        f"{figures['late']:.0f}",
        f"{_ms(figures['age_p50'])}, p99 {_ms(figures['age_p99'])}",
        _number(_mean(found.jump)),
        f"{_number(_mean(found.jerk))}, median elsewhere {_number(inside)}",
        events or "none",
    )


def _figures(log: ControlLog, prefix: str) -> list[Markup]:
    steps, held = log.total - len(log.steps) + np.arange(len(log.steps)), log.array("held")
    drawn = [_curve(steps, 1e3 * log.array("age"), held, "Age of the observation, ms", f"{prefix}a")]
    confidence = log.array("confidence")
    if np.isfinite(confidence).any():
        drawn.append(_curve(steps, confidence, held, "Confidence of the plan in hand", f"{prefix}c"))
    return drawn + (plan_maps(log.trace, f"{prefix}m") if log.trace is not None else [])


def _curve(steps: np.ndarray, values: np.ndarray, held: np.ndarray, title: str, prefix: str) -> Markup:
    with style():
        figure, axes = plot_axes(title, "control step")
        axes.step(steps, values, where="post", color=OURS, linewidth=1.3)
        top = max(float(np.nanmax(values, initial=0.0)), 1e-9) * 1.1
        axes.fill_between(steps, 0, top, where=held, step="post", color=PINK, alpha=0.3, linewidth=0)
        axes.set_ylim(0, top)
        if held.any():
            axes.set_title("pink: held", loc="right", color=MUTED, fontsize=9, fontweight="normal")
        return inline_svg(figure, prefix, f"{title} over the control steps")


def _mean(values: np.ndarray) -> float:
    """Of the largest over the numbers of a command."""
    return float(values.max(1).mean()) if values.size else math.nan


def _ms(seconds: float) -> str:
    return "\N{EN DASH}" if math.isnan(seconds) else f"{1e3 * seconds:.0f} ms"


def _number(value: float | Sequence[float]) -> str:
    return "\N{EN DASH}" if np.isnan(value) else f"{value:.3g}"
