"""The tables of the page: success beside the paper's, and latency."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mgp.evaluation.record import Evaluation
from mgp.report.paper import paper_latency, paper_level, paper_success

NONE = "&ndash;"
MODES = {"cloud": "point clouds", "rgb": "pictures", "depth": "depth pictures"}  # in words


def success_table(evaluations: Sequence[Evaluation]) -> str:
    head = ("Method", "Task", "Success", "0 to 1, with 95 % interval", "Paper", "Episodes", "Training")
    body = []
    for one in evaluations:
        low, high = one.interval
        paper = _paper(one, one.method)
        reference = _paper(one, "DP3") if one.method != "DP3" else None
        aside = f'<small class="line">DP3 {reference:.2f}</small>' if reference is not None else ""
        body.append(
            (
                f"<b>{escape(one.method)}</b>{_options(one)}",
                f"{escape(one.task.removeprefix('metaworld/'))}<small>{_origin(one)}</small>",
                f'<b class="rate">{one.success:.2f}</b><small class="line">{low:.2f} to {high:.2f}</small>',
                _interval(one.success, low, high, paper),
                (f"{paper:.2f}" if paper is not None else NONE) + aside,
                f"{one.successes} of {len(one.episodes)}<small>{_seeds(one)}</small>",
                _training(one),
            )
        )
    return table(head, body)


def _paper(one: Evaluation, method: str) -> float | None:
    """The paper's figure under the same conditions; it has none for bursts, a lost camera or another task's policy."""
    if {"missing_burst", "missing_from", "trained_on"} & set(one.variant):
        return None
    return paper_success(method, one.task, one.missing)


def latency_table(evaluations: Sequence[Evaluation]) -> str:
    head = (
        "Method",
        "A replan",
        "A step",
        "A sequence",
        "A replan + looking",
        "A sequence + looking",
        "Paper",
    )
    body = []
    for one in evaluations:
        step, sequence = paper_latency(one.method)
        paper = " / ".join(f"{value:g}" if value is not None else NONE for value in (step, sequence))
        for timing in one.latency:
            policy, both = timing["policy"], timing["with_observation"]
            body.append(
                (
                    f"<b>{escape(one.method)}</b><small>{_threads(timing)}</small>{_options(one)}",
                    f"<b>{_ms(policy['replan'])}</b><small>p95 {_ms(policy['replan_p95'])}</small>",
                    _ms(policy["step"]),
                    _ms(policy["sequence"]),
                    f"{_ms(both['replan'])}<small>p95 {_ms(both['replan_p95'])}</small>",
                    _ms(both["sequence"]),
                    paper,
                )
            )
    return table(head, body)


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already. On a phone each row becomes a card, its cells labelled by the column's name."""
    top = "".join(f"<th>{name}</th>" for name in head)
    rows = "".join(
        "<tr>"
        + "".join(f'<td data-label="{name}"><div>{cell}</div></td>' for name, cell in zip(head, row, strict=True))
        + "</tr>"
        for row in body
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>"


def _interval(rate: float, low: float, high: float, paper: float | None) -> str:
    """A small drawing: bar for the interval, dot for ours, upright stroke for the paper's."""

    def x(value: float) -> str:
        return f"{4 + 152 * value:.1f}"

    mark = f'<path class="paper" d="M{x(paper)} 2v16"/>' if paper is not None else ""
    against = f"; paper {paper:.2f}" if paper is not None else ""
    label = f"{rate:.2f} ({low:.2f} to {high:.2f}){against}"
    return (
        f'<svg class="interval" viewBox="0 0 160 20" role="img" aria-label="{label}">'
        f'<path class="axis" d="M4 10h152M4 7v6M80 8v4M156 7v6"/>'
        f'<path class="bar" d="M{x(low)} 10H{x(high)}"/>{mark}<circle cx="{x(rate)}" cy="10" r="4.2"/></svg>'
    )


def _options(one: Evaluation) -> str:
    options = [f"{name.replace('_', ' ')} {value}" for name, value in one.variant.items()]
    if one.missing:
        options.append(f"{one.missing:.0%} of observations missing")
    return f"<small>{escape(', '.join(options))}</small>" if options else ""


def _origin(one: Evaluation) -> str:
    level = paper_level(one.task) if one.task.startswith("metaworld/") else ""
    return escape(", ".join(part for part in (level, f"from {MODES.get(one.observation, one.observation)}") if part))


def _seeds(one: Evaluation) -> str:
    seeds = [episode.seed for episode in one.episodes]
    return f"seeds {min(seeds)} to {max(seeds)}" if seeds else ""


def _training(one: Evaluation) -> str:
    minutes = f"{one.training_minutes:.1f} min" if one.training_minutes is not None else NONE
    parts = [
        f"seed {one.training_seed}" if one.training_seed is not None else "",
        f"{one.demonstrations} demonstrations" if one.demonstrations is not None else "",
    ]
    return f"{minutes}<small>{escape(', '.join(part for part in parts if part))}</small>"


def _threads(timing: dict) -> str:
    count = timing["threads"]
    return escape(f"{count} thread{'s' * (count != 1)}")


def _ms(value: float) -> str:
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms" if value >= 1 else f"{value:.2f} ms"
