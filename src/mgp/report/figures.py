"""The figures of the page: training curves, and what a plan-keeping policy thought."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from mgp.evaluation.statistics import wilson
from mgp.policies.base import PlanTrace
from mgp.report.svg import MUTED, OURS, PAPER, PINK, inline_svg, style

POINTS = 240  # of a curve; more cannot be told apart at this width
# the paper's colours: kept, masked at the first refinement, masked at the second too, executed
MASK_COLOURS = {"kept": "#ffffff", "first": "#000000", "second": "#9a9a9a", "executed": "#f7a8c4"}
# Colours go by the logarithm: trained on soft labels over 1024 codes, a policy is sure to 0.005 to 0.5, and of these a
# linear scale shows most as black. The least is a guess among all codes. The same for all maps, to compare them.
SURE = (0.001, 0.01, 0.1, 1.0)
CURVE, MAP = (4.4, 2.7), (4.4, 3.2)  # inches at 72 points


def training_curve(points: Sequence[tuple[float, float]], title: str, prefix: str) -> Markup:
    steps, values = thin(np.array(points, float))
    with style():
        figure, axes = plot_axes(title, "training step")
        axes.plot(steps, values, color=OURS, linewidth=1.5)
        span = values.max() / values.min() if values.min() > 0 else 0
        if span > 8:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1,) if span > 60 else (1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_locator(NullLocator())
        axes.set_title(f"last {values[-1]:.3g}", loc="right", color=MUTED, fontsize=9, fontweight="normal")
        return inline_svg(figure, prefix, f"{title} over training steps")


def success_curve(checks: Sequence[tuple[float, float, int]], title: str, prefix: str) -> Markup:
    checks = sorted(checks)
    steps = [step for step, _, _ in checks]
    rates = [rate for _, rate, _ in checks]
    intervals = np.array([wilson(round(min(max(rate, 0), 1) * n), n) for _, rate, n in checks])
    with style():
        figure, axes = plot_axes(title, "training step")
        axes.fill_between(steps, intervals[:, 0], intervals[:, 1], color=OURS, alpha=0.16, linewidth=0)
        axes.plot(steps, rates, color=OURS, linewidth=1.5, marker="o", markersize=4)
        axes.set_ylim(-0.04, 1.04)
        return inline_svg(figure, prefix, f"{title}, with 95 % intervals")


def confidence_map(trace: PlanTrace, prefix: str, start: float | None = None) -> Markup:
    """x: replanning step, y: token of the plan; the line is where the executed prefix ends. `start`: see `mark`."""
    with style():
        figure, axes = _plan_axes(trace, "Confidence of each token")
        image = axes.imshow(
            np.ma.masked_invalid(trace.confidence.T).clip(SURE[0], SURE[-1]),
            cmap="viridis",
            norm=LogNorm(SURE[0], SURE[-1]),
            aspect="auto",
            origin="lower",
            interpolation="none",
            extent=_extent(trace),
        )
        edges, ends = _executed_steps(trace)
        axes.plot(edges, ends, color=PINK, linewidth=2)
        mark(axes, start)
        bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.03)
        bar.set_ticks(SURE, labels=[f"≤ {SURE[0]:g}", *(f"{value:g}" for value in SURE[1:])])
        bar.minorticks_off()
        bar.outline.set_visible(False)
        return inline_svg(figure, prefix, "Heat-map of token confidence by replanning step")


def mask_map(trace: PlanTrace, prefix: str, start: float | None = None) -> Markup:
    """The paper's mask map: which tokens were opened for editing at each replanning step."""
    cells = np.clip(trace.masked, 0, 2).T  # (N, R)
    cells = np.where(np.arange(cells.shape[0])[:, None] < trace.executed[None, :], 3, cells)
    with style():
        figure, axes = _plan_axes(trace, "Tokens masked for refinement")
        axes.imshow(
            cells,
            cmap=ListedColormap(list(MASK_COLOURS.values())),
            norm=BoundaryNorm([-0.5, 0.5, 1.5, 2.5, 3.5], 4),
            aspect="auto",
            origin="lower",
            interpolation="none",
            extent=_extent(trace),
        )
        mark(axes, start)
        return inline_svg(figure, prefix, "Map of masked tokens by replanning step")


def mark(axes, start: float | None) -> None:
    """An upright line at the replanning step at which the scene begins to move, if it does and is reached."""
    if start is not None and start <= axes.get_xlim()[1]:
        axes.axvline(start, color=PAPER, linewidth=2, linestyle=(0, (4, 2)))


def thin(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most POINTS points (P, 2), each the mean of its neighbours, in order of the step."""
    points = points[np.argsort(points[:, 0], kind="stable")]
    if len(points) > POINTS:
        points = np.stack([part.mean(0) for part in np.array_split(points, POINTS)])
    return points[:, 0], points[:, 1]


def plot_axes(title: str, label: str, size: tuple[float, float] = CURVE):
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.tick_params(length=0)
    axes.grid(axis="x", visible=False)
    return figure, axes


def _plan_axes(trace: PlanTrace, title: str):
    figure, axes = plot_axes(title, "replanning step", MAP)
    axes.set_ylabel("token")
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(visible=False)
    axes.set_xlim(*_extent(trace)[:2])
    return figure, axes


def _extent(trace: PlanTrace) -> tuple[float, float, float, float]:
    replans, tokens = trace.tokens.shape
    return 0.5, replans + 0.5, -0.5, tokens - 0.5


def _executed_steps(trace: PlanTrace) -> tuple[np.ndarray, np.ndarray]:
    """Corners of the staircase over which the executed prefix grows."""
    edges = np.arange(len(trace.executed) + 1) + 0.5
    return np.repeat(edges, 2)[1:-1], np.repeat(np.asarray(trace.executed) - 0.5, 2)
