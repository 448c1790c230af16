"""Confidence put to use: `python -m benchmarks.replanning RUN [RUN ...]`, runs of MGP-Long.

Into results/replanning.csv: what it saves to rewrite a plan only when its confidence has fallen. A look costs one pass
of the network to score the plan; to rewrite it, `refine_steps` more. `replan` is the share of the confidence that the
tokens were written with below which the plan is rewritten; 0 is the fixed beat, against which each row is tested
episode by episode.

Into results/alarm.csv: how well low confidence foretells failure, at the fixed beat. The figure of an episode after s
steps is the one that `mgp.runtime.Alarm` goes by: the lowest, so far, of the highest of three looks in a row.

- `auroc` is the chance that an episode that will fail has a lower figure than one that will be solved, of the episodes
  that are still running after s steps: a solved episode ends, and would have had fewer looks than a failed one, so that
  time alone would tell them apart. `ended` solved episodes are over by then; quote rows where it is 0, for which all
  episodes count. Later ones are of slow solved episodes only.
- `level` is the `Alarm.below` that one in twenty solved episodes of the *first half* of the seeds falls under. The
  *second half* judges it: `caught` is the share of its failed episodes with an alarm by then, `false_alarms` that of
  its solved ones, each followed to its end.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from benchmarks.controlled import WHO, Options, Subject, add_rows, command, outcomes
from benchmarks.results import RESULTS
from mgp.errors import ConfigError
from mgp.evaluation.statistics import auroc, sign_test, wilson
from mgp.policies.base import PlanTrace
from mgp.policies.mgp import MGP
from mgp.runtime.log import ControlLog

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
TIMES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.75, 1.0)  # of the horizon; solved ones end early
LOOKS, FALSE_ALARMS = 3, 0.05


def passes(trace: PlanTrace, refine_steps: int) -> int:
    """Of the network, in an episode: a first plan is written, each later look scores it, and rewrites it if need be."""
    looks = trace.executed[1:] < trace.tokens.shape[1]  # not after the plan is over
    rewritten = trace.masked[1:].any(1)
    return refine_steps + int(looks.sum()) + refine_steps * int(rewritten.sum())


def replanning(subject: Subject) -> tuple[list[dict[str, str]], list[ControlLog]]:
    """Rows, and the episodes at the fixed beat."""
    assert isinstance(subject.policy, MGP)
    rows: list[dict[str, str]] = []
    plain: list[ControlLog] = []
    used: dict[float, float] = {}
    for share in SHARES:
        logs = subject.drive(f"replan {share}", {"replan": share})
        plain = plain or logs
        counts = [passes(log.trace, subject.policy.sampling.refine_steps) for log in logs if log.trace is not None]
        rewrites = [int(log.trace.masked[1:].any(1).sum()) for log in logs if log.trace is not None]
        used[share] = sum(counts) / sum(log.total for log in logs)
        successes, test = sum(outcomes(logs).values()), sign_test(outcomes(logs), outcomes(plain))
        low, high = wilson(successes, len(logs))
        rows.append(
            subject.row(
                replan=share,
                episodes=len(logs),
                success=round(successes / len(logs), 4),
                low=round(low, 4),
                high=round(high, 4),
                only_here=test.only_first,
                only_fixed=test.only_second,
                p=round(test.p, 4),
                passes_a_step=round(used[share], 4),
                saved=round(1 - used[share] / used[0.0], 4),
                rewrites=round(float(np.mean(rewrites)), 2),  # an episode
            )
        )
        print("  ".join(f"{name} {value}" for name, value in list(rows[-1].items())[:15]), flush=True)
    return rows, plain


def doubts(log: ControlLog, horizon: int) -> np.ndarray:
    """(horizon,) after each control step the lowest of the highest of LOOKS looks in a row; 1 before there are such."""
    seen = [(one.came, one.confidence) for one in log.plans if one.confidence is not None]
    seen = [(step, confidence) for step, confidence in seen if np.isfinite(confidence)]  # the plan may be over
    out = np.ones(horizon)
    for index in range(LOOKS - 1, len(seen)):
        highest = max(confidence for _, confidence in seen[index - LOOKS + 1 : index + 1])
        step = seen[index][0]
        out[step:] = np.minimum(out[step:], highest)
    return out


def alarm(subject: Subject, logs: Sequence[ControlLog]) -> list[dict[str, str]]:
    horizon, half = subject.run.spec.horizon, len(logs) // 2
    failed, lasted = np.array([not log.success for log in logs]), np.array([log.total for log in logs])
    found = np.stack([doubts(log, horizon) for log in logs])  # (E, horizon)
    calm = found[:half, -1][~failed[:half]]
    level = float(np.quantile(calm, FALSE_ALARMS)) if len(calm) else None
    rows = []
    for time in TIMES:
        steps = max(round(time * horizon), 1)
        running = lasted >= steps
        value = auroc(found[running, steps - 1].tolist(), failed[running].tolist())
        told = None if level is None else found[half:, steps - 1] < level
        rows.append(
            subject.row(
                step=steps,
                episodes=len(logs),
                failed=int(failed.sum()),
                ended=int((~failed & ~running).sum()),
                auroc=_rounded(value),
                level=_rounded(level, 5),
                caught=_share(told, failed[half:]),
                false_alarms=_share(told, ~failed[half:]),
            )
        )
        print("  ".join(f"{name} {value}" for name, value in list(rows[-1].items())[:12]), flush=True)
    return rows


def _share(told: np.ndarray | None, those: np.ndarray) -> float | None:
    return None if told is None or not those.any() else _rounded(float(told[those].mean()))


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)


def run(options: Options) -> None:
    for folder in options.runs:
        subject = Subject(folder, options)
        if not isinstance(subject.policy, MGP) or not subject.policy.long:
            raise ConfigError(f"{folder} holds {subject.policy.label}, which keeps no plan: give runs of MGP-Long")
        rows, plain = replanning(subject)
        foretold = alarm(subject, plain)
        if options.output is None and options.development:
            continue
        folder_out = options.output or RESULTS
        add_rows(folder_out / "replanning.csv", rows, (*WHO, "replan"))
        add_rows(folder_out / "alarm.csv", foretold, (*WHO, "step"))


def main(arguments: list[str]) -> int:
    return command("replanning", __doc__, run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
