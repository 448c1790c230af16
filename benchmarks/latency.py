"""How long MGP thinks with each engine: `python -m benchmarks.latency`, about ten minutes of an idle machine.

MGP-Short and MGP-Long at batch 1 on one thread, from camera clouds of 512 and 1024 points; every engine that is
installed, interleaved in one run, all on the same frames of a demonstration. MGP-Long twice: as often as it looks by
default, and every 12 steps, as in the paper. Then MGP-Long with 50, 100, 200 and 400 tokens. Encoder included, looks at
the world not. Weights are untrained: the work is the same. (How well engines agree with torch is for trained weights:
`mgp export RUN`.)

The tables are printed, and written to results/latency.csv and docs/latency-growth.svg if the machine was idle and the
commit is clean. A machine that is not idle is refused at once; with --busy it prints figures, and writes none.
"""

from __future__ import annotations

import copy
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import tyro

from benchmarks.timing import POINTS, TASK, check_idle, demonstrated, show
from mgp.data.demonstrations import Demonstrations
from mgp.engines import REFERENCE
from mgp.engines.folder import adopt
from mgp.errors import MGPError
from mgp.evaluation.csv_table import Line, text
from mgp.evaluation.idle import Others
from mgp.evaluation.provenance import commit, machine
from mgp.evaluation.replay import Replay
from mgp.evaluation.speed import ROUNDS, TURN, Times, race
from mgp.evaluation.speed_table import write_speed
from mgp.policies import policy_class
from mgp.policies.base import Policy
from mgp.policies.learned import LearnedPolicy
from mgp.presets import get_config
from mgp.workflows.export import installed, write_engines

OUTPUT, PLOT = Path("results/latency.csv"), Path("docs/latency-growth.svg")
GROWTH, GROWTH_ROUNDS = (50, 100, 200, 400), 3  # tokens of a plan
STEPS_A_TOKEN = 4
PAPER_RUN = 12  # steps that the paper's MGP-Long runs between two looks; ours looks more often
# method, tokens of its plans, steps run between two looks (none: the method's own)
METHODS: tuple[tuple[str, int, int | None], ...] = (
    ("mgp-short", 2, None),
    ("mgp-long", 50, None),
    ("mgp-long", 50, PAPER_RUN),
)
TARGETS = {"mgp-short": ("step_p50", 0.3), "mgp-long": ("sequence_p50", 60.0)}  # milliseconds, of 512 points
COLUMNS = (
    *("method", "tokens", "points", "run", "engine", "replans"),
    *("replan_p50", "replan_p99", "step_p50", "sequence_p50", "sequence_p99", "ratio"),  # ratio: of replans, to torch
    *("others", "torch", "commit", "machine"),
)
PRINTED = COLUMNS[:12]


class Case(NamedTuple):
    method: str
    tokens: int
    points: int
    run: int
    engine: str

    @property
    def name(self) -> str:
        return " ".join(map(str, self))


@dataclass(frozen=True)
class Options:
    """Time engines side by side."""

    points: tuple[int, ...] = (512, 1024)
    growth: tuple[int, ...] = GROWTH  # tokens of a plan of MGP-Long
    engines: tuple[str, ...] = ()  # beside torch, which is always there; none named: all that are installed
    rounds: int = ROUNDS
    seconds: float = TURN  # of a turn
    busy: bool = False  # on a machine that is not idle, too: the figures are printed, not written
    output: Path = OUTPUT
    plot: Path = PLOT


def build(method: str, demonstrations: Demonstrations, run: int | None = None) -> LearnedPolicy:
    config = get_config(method, TASK)
    if run is not None:
        config = config.changed({"policy.sampling.execution_horizon": run})
    policy = policy_class(config.policy.name).build(config, demonstrations).eval()
    # a codebook whose codes differ, as after training
    torch.nn.init.normal_(policy.tokenizer.codebook.codes, generator=torch.Generator().manual_seed(0))
    policy.adopt_codebook()
    return policy


def with_engines(policy: LearnedPolicy, demonstrations: Demonstrations, engines: Sequence[str]) -> dict[str, Policy]:
    """The same policy, computed by torch and by each engine."""
    found: dict[str, Policy] = {REFERENCE: policy}
    engines = [name for name in engines if name != REFERENCE]
    if not engines:
        return found
    with tempfile.TemporaryDirectory() as folder:
        _, meta = write_engines(policy, demonstrations, Path(folder), engines)
        for name in engines:
            found[name] = adopt(copy.deepcopy(policy), Path(folder), meta, name)
    return found


def contest(
    cases: Sequence[tuple[str, int, int | None]], points: int, demonstrations: Demonstrations, options: Options
) -> tuple[list[Line], Others]:
    """Lines of `METHODS`, every engine of each, in one interleaved race on the same frames."""
    policies: dict[Case, Policy] = {}
    for method, tokens, run in cases:
        print(f"exporting {method}, {tokens} tokens, {points} points", file=sys.stderr, flush=True)
        policy = build(method, demonstrations, run)
        found = with_engines(policy, demonstrations, options.engines or installed())
        horizon = policy.execution_horizon
        policies |= {Case(method, tokens, points, horizon, engine): one for engine, one in found.items()}
    raced = race(
        {case.name: policy for case, policy in policies.items()},
        Replay(demonstrations),
        (1,),
        options.rounds,
        options.seconds,
        tick=lambda name: print(f"\r{name:<60}", end="", file=sys.stderr, flush=True),
    )
    print(file=sys.stderr)
    about = {"others": raced.machine.cores, "torch": torch.__version__, "commit": commit(), "machine": machine()}
    figures = {case: figures_of(raced.times[case.name, 1], policy) for case, policy in policies.items()}
    lines = []
    for case, mine in figures.items():
        base = figures[case._replace(engine=REFERENCE)]
        values = {
            **case._asdict(),
            "replans": len(raced.times[case.name, 1].replans),
            **{name: f"{value:.4g}" for name, value in mine.items()},
            "ratio": f"{mine['replan_p50'] / base['replan_p50']:.3g}",
            **about,
        }
        lines.append({name: text(values[name]) for name in COLUMNS if text(values.get(name)) != ""})
    return lines, raced.machine


def figures_of(times: Times, policy: Policy) -> dict[str, float]:
    middle, slow = np.percentile(times.replans, (50, 99)).tolist()
    out = {"replan_p50": middle, "replan_p99": slow, "step_p50": middle / policy.execution_horizon}
    if times.sequences:
        out["sequence_p50"], out["sequence_p99"] = np.percentile(times.sequences, (50, 99)).tolist()
    return out


def measure(options: Options) -> tuple[list[Line], list[Line], Others]:
    """Lines of the engines, lines of the growth, and the machine in the busiest of the races."""
    lines: list[Line] = []
    machines: list[Others] = []
    for points in options.points:
        found, seen = contest(METHODS, points, demonstrated(1, points), options)
        lines += found
        machines.append(seen)
    demonstrations, fewer = demonstrated(1), replace(options, rounds=min(options.rounds, GROWTH_ROUNDS))
    known = [line for line in lines if line["method"] == "mgp-long" and line["points"] == str(POINTS)]
    usual = known[0]["run"] if known else ""  # growth is that of a look, whatever is run after it
    growth = [line for line in known if int(line["tokens"]) in options.growth and line["run"] == usual]
    for tokens in options.growth:
        if not any(line["tokens"] == str(tokens) for line in growth):
            longer = demonstrations.saying(horizon=STEPS_A_TOKEN * tokens)
            found, seen = contest([("mgp-long", tokens, None)], POINTS, longer, fewer)
            growth += found
            machines.append(seen)
    unknown = any(one.cores is None for one in machines)
    return lines, growth, Others(None if unknown else max((one.cores or 0.0 for one in machines), default=0.0))


def targets(lines: Sequence[Line]) -> str:
    """Which engines meet them."""
    said = []
    for method, (figure, limit) in TARGETS.items():
        rows = [line for line in lines if line["method"] == method and line["points"] == str(POINTS) and figure in line]
        met = [f"{line['engine']} (run {line['run']})" for line in rows if float(line[figure]) <= limit]
        best = min((float(line[figure]) for line in rows), default=float("nan"))
        said.append(f"{method}: {figure} at most {limit} ms, best {best:.3g}; met by {', '.join(met) or 'none'}")
    return "\n".join(said)


def draw(growth: Sequence[Line], path: Path) -> None:
    """Milliseconds of a replan against the tokens of a plan, a line an engine."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axis = figure.subplots()
    for engine in dict.fromkeys(line["engine"] for line in growth):
        mine = [line for line in growth if line["engine"] == engine]
        axis.plot(
            [int(line["tokens"]) for line in mine], [float(line["replan_p50"]) for line in mine], "o-", label=engine
        )
    axis.set(xlabel="tokens of a plan", ylabel="ms a replan (median)", xlim=(0, None), ylim=(0, None))
    axis.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def run(options: Options) -> None:
    check_idle(options.busy)
    lines, growth, seen = measure(options)
    show(lines, PRINTED)
    print("\ngrowth")
    show(growth, PRINTED)
    print(f"\n{targets(lines)}")
    if not options.busy:
        write_speed(options.output, COLUMNS, [*lines, *(line for line in growth if line not in lines)], seen)
        draw(growth, options.plot)


def main(arguments: list[str]) -> int:
    try:
        run(tyro.cli(Options, args=arguments, prog="python -m benchmarks.latency"))
    except MGPError as error:
        print(f"benchmarks.latency: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
