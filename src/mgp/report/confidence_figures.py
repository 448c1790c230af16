"""The figures of a confidence study: confidence over the replanning steps, and flip rates beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from mgp.evaluation.confidence_parts import Curve
from mgp.report.figures import CURVE, mark, plot_axes
from mgp.report.svg import INK, MUTED, OURS, PAPER, inline_svg, style


def confidence_curve(curves: Mapping[str, Curve], title: str, start: float | None, prefix: str) -> Markup:
    """Mean of the episodes still running, with their quartiles; the first curve is the one studied."""
    with style():
        figure, axes = plot_axes(title, "replanning step")
        _draw(axes, curves)
        axes.set_ylim(bottom=0)
        mark(axes, start)
        if len(curves) > 1:
            axes.legend(labelcolor=INK, fontsize=9)
        return inline_svg(figure, prefix, f"{title} over the replanning steps")


def difference_curve(curves: Mapping[str, Curve], title: str, start: float | None, prefix: str) -> Markup:
    """Moving minus static scene on the same seeds, with standard errors; the first curve is the one studied."""
    with style():
        figure, axes = plot_axes(title, "replanning step")
        axes.axhline(0, color=INK, linewidth=0.8)
        _draw(axes, curves)
        mark(axes, start)
        axes.legend(labelcolor=INK, fontsize=9)
        return inline_svg(figure, prefix, title)


def _draw(axes, curves: Mapping[str, Curve]) -> None:
    for (name, curve), colour in zip(curves.items(), (OURS, MUTED), strict=False):
        axes.fill_between(curve.replans, curve.low, curve.high, color=colour, alpha=0.16, linewidth=0)
        axes.plot(curve.replans, curve.mean, color=colour, linewidth=1.5, marker="o", markersize=3.5, label=name)


def flip_bars(rates: Sequence[tuple[str, float, float | None]], title: str, prefix: str) -> Markup:
    """(name, ours, paper's) from top to bottom, in shares of the masked tokens."""
    with style():
        figure, axes = plot_axes(title, "", (CURVE[0], 0.6 + 0.55 * len(rates)))
        places = range(len(rates))[::-1]
        axes.barh(places, [100 * ours for _, ours, _ in rates], height=0.55, color=OURS)
        for place, (_, ours, paper) in zip(places, rates, strict=True):
            axes.text(100 * ours + 1.5, place, f"{100 * ours:.1f}", va="center")
            if paper is not None:
                axes.plot([100 * paper] * 2, [place - 0.4, place + 0.4], color=PAPER, linewidth=3)
        axes.set_yticks(list(places), [name for name, _, _ in rates])
        axes.set_xlim(0, 112)
        axes.set_xticks([0, 50, 100])
        axes.grid(axis="y", visible=False)
        return inline_svg(figure, prefix, title)
