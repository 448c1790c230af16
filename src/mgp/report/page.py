"""The page itself: sections put together from tables, figures and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from mgp import __version__
from mgp.errors import ConfigError
from mgp.evaluation.record import Evaluation
from mgp.files import write_atomic
from mgp.report import sections
from mgp.report.confidence import study_section
from mgp.report.control import controlled
from mgp.report.run_folder import RunFolder, read_run
from mgp.report.speed import speed_section
from mgp.report.template import render
from mgp.report.words import listed, seen_by, task, unique


def write_report(runs: Sequence[Path], output: Path, speed: Path | None = None) -> Path:
    """Write one HTML page about the run folders; it needs no other file and no network. Returns `output`.

    `speed`: the table that `python -m benchmarks.speed` wrote, shown on the page, or without runs as the page.
    """
    if not runs and speed is None:
        raise ConfigError("no runs were given to report on: name at least one run folder, or a table by --speed")
    write_atomic(output, page([read_run(Path(folder)) for folder in runs], speed).encode())
    return output


def page(runs: Sequence[RunFolder], speed: Path | None = None) -> str:
    evaluations = [one for run in runs for one in run.evaluations]
    only_recordings = not evaluations and any(run.open_loop for run in runs)
    return render(
        "page",
        title=_title(evaluations, runs),
        lead=_lead(evaluations, runs),
        sections=[
            *([] if only_recordings or not runs else [sections.success(evaluations)]),
            sections.held_out(runs),
            sections.compared(evaluations),
            sections.latency(evaluations),
            *([] if speed is None else [speed_section(speed)]),
            sections.rollouts(evaluations),
            sections.plans(evaluations),
            controlled({f"{run.name}/{name}": log for run in runs for name, log in run.controlled.items()}),
            *(
                study_section(study, f"run{number}study{index}")
                for number, run in enumerate(runs)
                for index, study in enumerate(run.studies)
            ),
            *([sections.training(runs)] if runs else []),
            sections.missing(runs),
        ],
        footer=_footer(evaluations),
    )


def _title(evaluations: Sequence[Evaluation], runs: Sequence[RunFolder]) -> str:
    if not evaluations:
        return ", ".join(run.name for run in runs) or "Speed"
    methods, tasks = unique(one.method for one in evaluations), unique(map(task, evaluations))
    return f"{listed(methods)} on {listed(tasks)}"


def _lead(evaluations: Sequence[Evaluation], runs: Sequence[RunFolder]) -> list[str]:
    facts = [f"{len(runs)} run{'s' * (len(runs) != 1)}"] if runs else []
    facts += [f"from {name}" for name in unique(map(seen_by, evaluations))]
    facts += [f"{n} demonstrations" for n in unique(str(o.demonstrations) for o in evaluations if o.demonstrations)]
    facts += unique(map(_episodes, evaluations))
    facts += [f"method {name}" for name in unique(str(run.setting("method") or "") for run in runs) if name]
    return facts


def _episodes(one: Evaluation) -> str:
    """Called unseen only where that was checked."""
    return f"{len(one.episodes)} episodes, {one.overlap}" if one.overlap else f"{len(one.episodes)} unseen episodes"


def _footer(evaluations: Sequence[Evaluation]) -> list[str]:
    facts = [f"mgp {__version__}"]
    facts += [f"commit {name}" for name in unique(one.commit for one in evaluations)]
    facts += unique(one.machine for one in evaluations if one.machine)
    return [*facts, f"written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"]
