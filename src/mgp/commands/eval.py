from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from mgp.config import SamplingConfig
from mgp.evaluation import rows
from mgp.evaluation.evaluate import evaluate
from mgp.evaluation.missing import NONE, Missing
from mgp.evaluation.record import Evaluation
from mgp.evaluation.statistics import mean_of_top
from mgp.runs import Run, method_name, pick_device, read_evals

EVAL_SEED = 10_000


@dataclass(frozen=True)
class Eval:
    """Success of a trained policy on unseen episodes, with Wilson's 95 % interval, and how long it thinks.

    Every sampling option can be changed without training again, e.g. --sampling.variant full."""

    run: Annotated[Path, tyro.conf.Positional]  # a folder that `mgp train` wrote
    episodes: int = 20
    seed: int = EVAL_SEED  # first evaluation seed; must not meet the demonstrations'
    env: str | None = None  # another environment than the one trained on, e.g. metaworld-dynamic/push
    missing: float = 0.0  # probability that the observation of a control cycle is withheld
    missing_burst: int = 1  # control cycles such a dropout lasts
    missing_from: int | None = None  # control step from which on no observation arrives any more
    workers: int | None = None  # processes; default: one a core
    csv: Path | None = None  # append a row, in the format of results/metaworld.csv
    device: str = "cpu"
    sampling: SamplingConfig = field(default_factory=SamplingConfig)


def main(arguments: list[str]) -> None:
    args, run = parse(arguments)
    missing = Missing(args.missing, args.missing_burst, args.missing_from)
    result = evaluate_run(
        run, args.sampling, args.episodes, args.seed, missing, args.workers, args.device, env_name=args.env
    )
    print(describe(result))
    if args.csv:
        same = is_default(args.sampling, missing, args.env, run)
        rows.add_rows(args.csv, [result_row(run, result, same)])
        print(f"row added to {args.csv}")


def is_default(sampling: SamplingConfig, missing: Missing, env_name: str | None, run: Run) -> bool:
    """Whether this is what was evaluated in training."""
    return sampling == run.config.sampling and not missing and env_name in (None, run.config.env.name)


def result_row(run: Run, result: Evaluation, as_trained: bool) -> dict[str, str]:
    """A row of results/*.csv: what the evaluation says, and what the run knows of its training.

    `as_trained`: this is what was evaluated in training, so that the figure of its best evaluations belongs beside it.
    """
    return rows.make_row([result], [run.trained_at], [top5(run) if as_trained else None])


def top5(run: Run) -> float | None:
    """The paper's figure: mean of the five best evaluations in training; None with fewer than five."""
    rates = [float(row["success"]) for row in read_evals(run.folder)]
    return mean_of_top(rates) if len(rates) >= 5 else None


def parse(arguments: list[str]) -> tuple[Eval, Run]:
    """The run named on the command line gives the defaults of the sampling options."""
    first = tyro.cli(Eval, args=arguments, prog="mgp eval")
    run = Run.open(first.run)
    default = replace(first, sampling=run.config.sampling)
    return tyro.cli(Eval, args=arguments, default=default, prog="mgp eval"), run


def evaluate_run(
    run: Run,
    sampling: SamplingConfig,
    episodes: int = 20,
    seed: int = EVAL_SEED,
    missing: Missing = NONE,
    workers: int | None = None,
    device: str = "cpu",
    latency: bool = True,
    record: int = 1,
    env_name: str | None = None,
) -> Evaluation:
    """Evaluate a run and keep the outcome in its eval/ folder.

    `env_name`: another environment than the run's, zero-shot. The seeds of the demonstrations are refused there too,
    since a moving scene starts from the same place as the static one of that seed.
    """
    config = replace(run.config, sampling=sampling)
    trained = asdict(run.config.sampling)
    changes = {key: value for key, value in asdict(sampling).items() if value != trained[key]}
    env = config.env
    task = env_name or env.name
    origin = {"trained_on": env.name} if task != env.name else {}
    conditions = ({"missing": missing.probability} if missing.probability else {}) | missing.options()
    result = evaluate(
        run.loader(str(pick_device(device)), **changes),
        task,
        env.observation,
        env.options,
        range(seed, seed + episodes),
        run.demonstration_seeds,
        method=method_name(config),
        preset=config.preset,
        variant={key: value for key, value in changes.items() if key != "variant"}
        | {"temperature": sampling.temperature, "refine_steps": sampling.refine_steps}
        | origin,
        training_seed=config.seed,
        training_minutes=run.minutes,
        missing=missing,
        workers=workers,
        latency=latency,
        record=record,
    )
    label = "-".join(
        ([task.replace("/", "-")] if origin else [])
        + [sampling.variant if config.policy == "long" else "short"]
        + [f"{key}={value}" for key, value in sorted(changes.items()) if key != "variant"]
        + [f"{key}={value}" for key, value in conditions.items()]
    )
    result.save(run.folder / "eval" / f"{label}-seed{seed}.json")
    return result


def describe(result: Evaluation) -> str:
    low, high = result.interval
    seen = f"{result.cloud} clouds" if result.cloud else result.observation
    lines = [
        f"{result.method} on {result.task} ({seen}): success {result.success:.2f}"
        f" [{low:.2f}, {high:.2f}] in {len(result.episodes)} episodes, {result.seconds:.0f} s"
    ]
    if result.overlap:
        lines.append(f"  {result.overlap}")
    for one in result.latency:
        lines.append(
            f"  {one['threads']} thread(s): {one['policy']['replan']:.2f} ms a replan,"
            f" {one['policy']['step']:.2f} a step, {one['policy']['sequence']:.0f} a sequence (policy only);"
            f" with observation {one['with_observation']['step']:.2f} a step"
            + ("" if one.get("idle") else "; the machine was not seen to be idle: no latency to compare")
        )
    return "\n".join(lines)
