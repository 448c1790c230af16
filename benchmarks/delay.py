"""Success and seams against the time a plan takes: `python -m benchmarks.delay RUN [RUN ...]`, into results/delay.csv.

Each run (of any method) drives the same episodes with plans that take 0, 50, 100 and 200 ms, at 20 control steps a
second, in the three ways of `mgp.runtime.planning.MODES`: *frozen*, *naive* and *wait*; and once without limits at no
delay, which is what `mgp eval` does (the row `unguarded`: each other row is tested against it, episode by episode).
Time is made up: nothing is waited for, and a busy machine changes nothing but how long this takes. All rows are of the
same engine, torch unless --engine says otherwise.

`outcomes` keeps which episodes were solved, a digit an episode in the order of their seeds, so that any two rows of the
same episodes can be compared in pairs; it is empty in rows from before it was kept. The frozen prefix against the naive
join is printed for each delay.

Figures of seams are root mean squares over seams and numbers of a command, of actions normalised so that those
demonstrated reach from -1 to 1: the jump, and third differences of positions (per control step cubed) at seams and
elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from benchmarks.controlled import WHO, Options, Subject, command, fill_table, outcomes
from mgp.evaluation.statistics import sign_test, wilson
from mgp.runtime.log import ControlLog
from mgp.runtime.planning import MODES
from mgp.runtime.seams import seams

DELAYS = (0, 50, 100, 200)  # milliseconds
KEY = (*WHO, "mode", "delay_ms")


def measure(subject: Subject) -> list[dict[str, str]]:
    rate, scale = subject.options.rate, subject.policy.normalizer.action_scale.numpy()  # type: ignore[operator]
    plain = subject.drive("unguarded", limits=None)
    rows = [subject.row(mode="unguarded", delay_ms=0, **figures(plain, plain, rate, scale))]
    for delay in DELAYS:
        solved: dict[str, dict[int, bool]] = {}  # by mode, then by seed
        for mode in MODES if delay else MODES[:1]:  # without delay they are one
            logs = subject.drive(f"{mode} {delay} ms", mode=mode, delay=delay / 1000)
            solved[mode] = outcomes(logs)
            rows.append(subject.row(mode=mode, delay_ms=delay, **figures(logs, plain, rate, scale)))
            print("  ".join(f"{name} {value}" for name, value in list(rows[-1].items())[:17]), flush=True)
        if delay:
            test = sign_test(solved["frozen"], solved["naive"])
            print(
                f"frozen against naive, {delay} ms: {test.only_first} episodes solved by the first alone,"
                f" {test.only_second} by the second, p {test.p:.4f}",
                flush=True,
            )
    return rows


def figures(
    logs: Sequence[ControlLog], plain: Sequence[ControlLog], rate: float, scale: np.ndarray
) -> dict[str, object]:
    successes, steps = sum(bool(log.success) for log in logs), sum(log.total for log in logs)
    low, high = wilson(successes, len(logs))
    test = sign_test(outcomes(logs), outcomes(plain))
    found = [seams(log) for log in logs]
    jerk = scale / rate**3
    return {
        "episodes": len(logs),
        "success": round(successes / len(logs), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "only_here": test.only_first,
        "only_unguarded": test.only_second,
        "p": round(test.p, 4),
        "seam_jump": rms([one.jump * scale for one in found]),
        "seam_jerk": rms([one.jerk * jerk for one in found]),
        "inner_jerk": rms([one.inside * jerk for one in found]),
        "held": round(sum(log.array("held").sum() for log in logs) / steps, 4),  # share of the steps
        "limited": round(sum(log.counts["limited"] for log in logs) / steps, 4),
        "plans": round(sum(len(log.plans) for log in logs) / len(logs), 2),  # an episode
        "outcomes": "".join(str(int(solved)) for solved in outcomes(logs).values()),
    }


def rms(parts: Sequence[np.ndarray]) -> float | None:
    values = np.concatenate(parts)
    return round(float(np.sqrt(np.mean(values**2))), 5) if values.size else None


def run(options: Options) -> None:
    fill_table("delay", measure, KEY, options)


def main(arguments: list[str]) -> int:
    return command("delay", __doc__, run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
