"""The section on speed: what `python -m benchmarks.speed` wrote, as tables and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from mgp.evaluation.csv_table import Line, read
from mgp.evaluation.speed_table import DEFAULT, read_speed
from mgp.report.svg import MUTED, OURS, PAPER, inline_svg, style
from mgp.report.template import render
from mgp.report.words import NONE, unique

TRAINING = "{stem}_training.csv"  # beside the table, if training was timed too
TRAINING_COLUMNS = {
    "method": "Method",
    "stage": "Stage",
    "parameters": "Parameters",
    "batch": "Batch",
    "seconds_per_1000": "Seconds a 1000 steps",
    "minutes": "Minutes of the stage",
    "task": "Task",
    "level": "Success",
    "level_step": "First at step",
    "level_minutes": "First after minutes",
    "logged_minutes": "As logged",
}


class Row(NamedTuple):
    """What speed.html shows of a policy; a figure is a cell of the table by its name."""

    line: Line  # with the fewest threads
    more: Line  # with the most, if there are several
    parameters: str
    estimated: bool  # no whole sequence was timed
    paper: str


def speed_section(path: Path) -> Markup:
    """The table of a CSV, and that of the training beside it, if there is one."""
    lines = read_speed(path)
    threads = sorted({int(line["threads"]) for line in lines})
    few, many = (_by_name(lines, count) for count in (threads[0], threads[-1])) if lines else ({}, {})
    rows = [_row(line, many.get(name, {})) for name, line in few.items()]
    beside = path.with_name(TRAINING.format(stem=path.stem))
    return render(
        "speed",
        rows=rows,
        threads=[threads[0], threads[-1]] if threads else [],
        figures=[bars(list(few.values()), "speed")] if few else [],
        facts=_facts(lines),
        training=_training(read(beside)[1]) if beside.exists() else None,
    )


def _by_name(lines: Sequence[Line], threads: int) -> dict[tuple[str, str], Line]:
    return {(line["policy"], line["sizes"]): line for line in lines if int(line["threads"]) == threads}


def _row(line: Line, more: Line) -> Row:
    paper = [line.get("paper_step"), line.get("paper_sequence")]
    return Row(
        line,
        more if more is not line else {},
        _millions(line.get("parameters", "")),
        line.get("sequences") == "0",
        " / ".join(value or NONE for value in paper) if any(paper) else NONE,
    )


def _millions(count: str) -> str:
    return f"{int(count) / 1e6:.1f}M" if count.isdecimal() else NONE


def _facts(lines: Sequence[Line]) -> list[str]:
    return [
        f"{label}{value}"
        for name, label in (("machine", ""), ("torch", "torch "), ("commit", "commit "))
        for value in unique(line[name] for line in lines if name in line)
    ]


def _training(lines: Sequence[Line]) -> dict[str, Any]:
    shown = {name: head for name, head in TRAINING_COLUMNS.items() if any(name in line for line in lines)}
    return {"head": list(shown.values()), "rows": [[_cell(line, name) for name in shown] for line in lines]}


def _cell(line: Mapping[str, str], name: str) -> str:
    return _millions(line.get(name, "")) if name == "parameters" else line.get(name, NONE)


def bars(lines: Sequence[Line], prefix: str) -> Markup:
    """A bar a policy, milliseconds a step on a logarithmic scale; the paper's figure as a mark."""
    order = sorted(lines, key=lambda line: float(line["step_p50"]), reverse=True)
    names = [f"{line['policy']}, {line['sizes']}" for line in order]
    with style():
        figure = Figure(figsize=(6.4, 0.5 + 0.19 * len(order)), layout="constrained")
        axes = figure.subplots()
        axes.set_title("Milliseconds a step, batch 1")
        axes.set_xscale("log")
        for place, line in enumerate(order):
            value, ours = float(line["step_p50"]), line["policy"].startswith("MGP")
            faint = 0.45 if line["sizes"] == DEFAULT else 1.0
            axes.barh(place, value, height=0.7, color=OURS if ours else MUTED, alpha=faint)
            shown = f"{value:.3g}" if value < 1000 else f"{value:.0f}"
            axes.annotate(shown, (value, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
            if line.get("paper_step"):
                axes.plot(float(line["paper_step"]), place, marker="|", markersize=9, color=PAPER, markeredgewidth=2)
        axes.set_yticks(range(len(order)), names, fontsize=8)
        axes.margins(y=0.01)
        axes.set_xlim(right=3 * axes.get_xlim()[1])  # room for the numbers
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
        axes.tick_params(length=0)
        axes.grid(axis="y", visible=False)
        return inline_svg(figure, prefix, "Milliseconds a step of each policy, as bars on a logarithmic scale")
