"""The page itself: sections put together from tables, figures and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from mgp import __version__
from mgp.errors import ConfigError
from mgp.evaluation.record import Evaluation
from mgp.files import write_atomic
from mgp.report import sections
from mgp.report.confidence import study_section
from mgp.report.run_folder import Run, read_run
from mgp.report.tables import MODES
from mgp.report.template import fill


def write_report(runs: Sequence[Path], output: Path) -> Path:
    """Write one HTML page about the run folders; it needs no other file and no network. Returns `output`."""
    if not runs:
        raise ConfigError("no runs were given to report on: name at least one run folder")
    page = render([read_run(Path(folder)) for folder in runs])
    write_atomic(output, page.encode())
    return output


def render(runs: Sequence[Run]) -> str:
    evaluations = [one for run in runs for one in run.evaluations]
    return fill(
        title=escape(_title(evaluations, runs)),
        lead=_lead(evaluations, runs),
        sections="".join(
            [
                sections.success(evaluations),
                sections.latency(evaluations),
                sections.rollouts(evaluations),
                sections.plans(evaluations),
                *(
                    study_section(study, f"run{number}study{index}")
                    for number, run in enumerate(runs)
                    for index, study in enumerate(run.studies)
                ),
                sections.training(runs),
                sections.missing(runs),
            ]
        ),
        footer=_footer(evaluations),
    )


def _title(evaluations: Sequence[Evaluation], runs: Sequence[Run]) -> str:
    if not evaluations:
        return ", ".join(run.name for run in runs)
    tasks = _unique(one.task.removeprefix("metaworld/") for one in evaluations)
    return f"{_list(_unique(one.method for one in evaluations))} on {_list(tasks)}"


def _lead(evaluations: Sequence[Evaluation], runs: Sequence[Run]) -> str:
    facts = [f"{len(runs)} run{'s' * (len(runs) != 1)}"]
    facts += [f"from {MODES.get(mode, mode)}" for mode in _unique(one.observation for one in evaluations)]
    facts += [f"{n} demonstrations" for n in _unique(str(o.demonstrations) for o in evaluations if o.demonstrations)]
    facts += [f"{n} unseen episodes" for n in _unique(str(len(one.episodes)) for one in evaluations)]
    facts += [f"preset {name}" for name in _unique(str(run.setting("preset") or "") for run in runs) if name]
    return " · ".join(map(escape, facts))


def _footer(evaluations: Sequence[Evaluation]) -> str:
    facts = [f"mgp {__version__}"]
    facts += [f"commit {name}" for name in _unique(one.commit for one in evaluations)]
    facts += _unique(one.machine for one in evaluations if one.machine)
    facts.append(f"written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    return " · ".join(map(escape, facts))


def _unique(items) -> list[str]:
    return list(dict.fromkeys(items))


def _list(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
