"""Success with each engine beside torch's: `python -m benchmarks.engines RUN [RUN ...]`, into results/engines.csv.

Each run (of any method, after `mgp export RUN`) drives the same episodes with torch and with every engine that was
exported, one robot at a time, without limits and delay: what `mgp eval` does, but never in a batch, since for one robot
an engine computes another graph. Each row is tested against torch's, episode by episode.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.controlled import WHO, Options, Subject, command, fill_table, outcomes
from mgp.engines import REFERENCE
from mgp.engines.folder import exported
from mgp.errors import ConfigError
from mgp.evaluation.statistics import sign_test, wilson
from mgp.runtime.log import ControlLog


def measure(subject: Subject) -> list[dict[str, str]]:
    meta = exported(subject.run.policy_checkpoint)
    if meta is None:
        raise ConfigError(f"{subject.run.folder} has no engines: run `mgp export {subject.run.folder}` first")
    plain: list[ControlLog] = []
    rows = []
    for engine in dict.fromkeys((REFERENCE, *meta["engines"])):
        logs = subject.drive(engine, {"engine": engine}, limits=None)
        plain = plain or logs
        rows.append(subject.row(engine=engine, **figures(logs, plain)))
        print("  ".join(f"{name} {value}" for name, value in list(rows[-1].items())[:11]), flush=True)
    return rows


def figures(logs: Sequence[ControlLog], plain: Sequence[ControlLog]) -> dict[str, object]:
    successes, test = sum(outcomes(logs).values()), sign_test(outcomes(logs), outcomes(plain))
    low, high = wilson(successes, len(logs))
    return {
        "episodes": len(logs),
        "success": round(successes / len(logs), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "only_here": test.only_first,
        "only_torch": test.only_second,
        "p": round(test.p, 4),
    }


def run(options: Options) -> None:
    if options.engine != REFERENCE:
        raise ConfigError(f"engine = {options.engine!r}: all that were exported are driven; leave --engine out")
    fill_table("engines", measure, WHO, options)


def main(arguments: list[str]) -> int:
    return command("engines", __doc__, run, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
