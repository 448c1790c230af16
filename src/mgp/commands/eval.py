from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from mgp.commands.options import KeyValues, parse_options
from mgp.config import Sampling
from mgp.envs import is_env
from mgp.errors import ConfigError
from mgp.evaluation import rows
from mgp.evaluation.missing import Missing
from mgp.evaluation.seeds import DEVELOPMENT
from mgp.runs import Run
from mgp.workflows.evaluate import describe, evaluate_run
from mgp.workflows.held_out import describe_open_loop, evaluate_held_out
from mgp.workflows.rows import result_row


@dataclass(frozen=True)
class Eval:
    """Success of a trained policy on unseen episodes, with Wilson's 95 % interval, and how long it thinks.

    A run on one's own recordings has no simulator: then the error of its predictions on the held-out episodes is shown.
    Every sampling option can be changed without training again, e.g. --sampling.execution-horizon 4."""

    run: Annotated[Path, tyro.conf.Positional]  # a folder that `mgp train` wrote
    episodes: int = 20
    seed: int = DEVELOPMENT[0]  # first evaluation seed; must not meet the demonstrations'
    env: str | None = None  # another environment than the one trained on, e.g. metaworld-dynamic/push
    option: KeyValues = ()  # of the environment, other than trained with: --option depth_noise=0.002
    missing: float = 0.0  # probability that the observation of a control cycle is withheld
    missing_burst: int = 1  # control cycles such a dropout lasts
    missing_from: int | None = None  # control step from which on no observation arrives any more
    workers: int | None = None  # processes; default: one a core
    csv: Path | None = None  # append a row, in the format of results/metaworld.csv
    device: str = "cpu"
    engine: str = "auto"  # who computes: torch, or one that `mgp export` wrote; auto: the fastest of these
    sampling: Sampling = field(default_factory=Sampling)


def main(arguments: list[str]) -> None:
    args, run = parse(arguments)
    if args.env is None and not is_env(run.config.task.name):
        refuse_simulation(args)
        print(describe_open_loop(evaluate_held_out(run, args.sampling, args.device, args.engine), run))
        return
    missing = Missing(args.missing, args.missing_burst, args.missing_from)
    options = parse_options(args.option)
    result = evaluate_run(
        run,
        args.sampling,
        args.episodes,
        args.seed,
        missing,
        args.workers,
        args.device,
        env_name=args.env,
        options=options,
        engine=args.engine,
    )
    print(describe(result))
    if args.csv:
        same = args.sampling == run.config.policy.sampling and not missing and not options
        rows.add_rows(args.csv, [result_row([run], [result], same and args.env in (None, run.config.task.name))])
        print(f"row added to {args.csv}")


def refuse_simulation(args: Eval) -> None:
    """What only a simulator can do must not be asked for in vain."""
    plain = Eval(args.run)
    for name in ("episodes", "seed", "option", "missing", "missing_burst", "missing_from", "csv"):
        if getattr(args, name) != getattr(plain, name):
            raise ConfigError(
                f"--{name.replace('_', '-')} is for a simulator, and {args.run} was trained on recordings: leave it out"
                " to see the error on its held-out episodes, or name a simulator by --env"
            )


def parse(arguments: list[str]) -> tuple[Eval, Run]:
    """The run named on the command line gives the sampling options and their defaults."""
    names = [word for word in arguments if not word.startswith("-")]
    if not names or ({"-h", "--help"} & set(arguments) and not Path(names[0]).exists()):
        tyro.cli(Eval, args=arguments, prog="mgp eval")  # help, or an error that says what is missing
    folder = next((word for word in names if (Path(word) / "checkpoints").is_dir()), names[0])
    run = Run.open(folder)
    default = Eval(Path(folder), sampling=run.config.policy.sampling)
    return tyro.cli(Eval, args=arguments, default=default, prog="mgp eval"), run
