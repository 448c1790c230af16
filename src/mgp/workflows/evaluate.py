"""Evaluate a run in its environment, or in another one, and keep the outcome beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mgp.config import Sampling
from mgp.engines import AUTO, REFERENCE
from mgp.engines.folder import choose
from mgp.envs import check_env, is_env
from mgp.envs.base import DISTURBANCES
from mgp.errors import ConfigError
from mgp.evaluation.evaluate import evaluate
from mgp.evaluation.missing import NONE, Missing
from mgp.evaluation.record import Evaluation
from mgp.evaluation.seeds import DEVELOPMENT
from mgp.runs import Run, pick_device


def evaluate_run(
    run: Run,
    sampling: Sampling | None = None,
    episodes: int = 20,
    seed: int = DEVELOPMENT[0],
    missing: Missing = NONE,
    workers: int | None = None,
    device: str = "cpu",
    latency: bool = True,
    record: int = 1,
    env_name: str | None = None,
    options: Mapping[str, Any] | None = None,
    engine: str = AUTO,
    said: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Success on unseen episodes; `sampling` and `options` (of the environment) may differ from the training's.

    `said`: further options that the record names, such as how the run was trained.
    `env_name`: another environment than the run's, zero-shot. The seeds of the demonstrations are refused there too,
    since a moving scene starts from the same place as the static one of that seed.
    """
    config, trained = run.config, run.config.policy.sampling
    sampling = sampling or trained
    changes = {key: value for key, value in asdict(sampling).items() if value != asdict(trained)[key]}
    task = env_name or config.task.name
    if env_name is not None:
        check_env(env_name)
    elif not is_env(task):
        raise ConfigError(
            f"{task!r} is no environment, so that nothing can be driven: `mgp eval` shows the error on held-out"
            " episodes of such recordings; or name an environment by --env"
        )
    conditions = ({"missing": missing.probability} if missing.probability else {}) | missing.options()
    other = {key: value for key, value in (options or {}).items() if run.spec.options.get(key) != value}
    for name in other:
        if name not in DISTURBANCES:
            raise ConfigError(
                f"option {name} = {other[name]!r}: the policy was trained with {run.spec.options.get(name)!r} and would"
                f" see other observations; only {', '.join(DISTURBANCES)} may differ, or train with --option {name}=..."
            )
    device = str(pick_device(device))
    chosen = choose(run.policy_checkpoint, engine) if device == "cpu" else engine
    computed = {} if chosen in (AUTO, REFERENCE) else {"engine": chosen}
    origin = {"trained_on": config.task.name} if task != config.task.name else {}
    result = evaluate(
        run.loader(device, chosen, **changes),
        task,
        config.task.observation,
        {**run.spec.options, **other},
        range(seed, seed + episodes),
        run.demonstration_seeds,
        preset=config.method,
        variant={key: value for key, value in changes.items() if key != "variant"}
        | {key: value for key, value in asdict(sampling).items() if key in ("temperature", "refine_steps")}
        | other
        | origin
        | computed
        | dict(said or {}),
        training_seed=config.seed,
        training_minutes=run.minutes,
        missing=missing,
        workers=workers,
        latency=latency,
        record=record,
    )
    label = _label(task if origin else "", changes | other | conditions | computed)
    result.save(run.folder / "eval" / f"{label}-seed{seed}.json")
    return result


def _label(task: str, differs: Mapping[str, Any]) -> str:
    """A file name that tells evaluations of one run apart."""
    parts = [task.replace("/", "-")] if task else []
    return "-".join([*parts, *(f"{key}={value}" for key, value in sorted(differs.items()))]) or "as-trained"


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
            f"  {one.get('engine', REFERENCE)}, {one['threads']} thread(s): {one['policy']['replan']:.2f} ms a replan,"
            f" {one['policy']['step']:.2f} a step, {one['policy']['sequence']:.0f} a sequence (policy only);"
            f" with observation {one['with_observation']['step']:.2f} a step"
            + ("" if one.get("idle") else "; the machine was not seen to be idle: no latency to compare")
        )
    return "\n".join(lines)
