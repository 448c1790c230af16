"""Evaluate a policy on unseen episodes: success with its interval, and how long it thinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from mgp.envs import make_env
from mgp.errors import ConfigError, SeedOverlapError
from mgp.evaluation.episode import Recording
from mgp.evaluation.latency import measure_both
from mgp.evaluation.missing import NONE, Missing
from mgp.evaluation.parallel import Job, run_episodes
from mgp.evaluation.provenance import commit, machine
from mgp.evaluation.record import Evaluation
from mgp.evaluation.seeds import DEVELOPMENT
from mgp.policies.base import Policy


def evaluate(
    load: Callable[[], Policy],
    env_name: str,
    observation: str = "cloud",
    options: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = DEVELOPMENT[:20],
    demonstration_seeds: Iterable[int] = (),
    *,
    method: str | None = None,
    preset: str = "",
    variant: Mapping[str, Any] | None = None,
    training_seed: int | None = None,
    training_minutes: float | None = None,
    missing: Missing = NONE,
    full_length: bool = False,
    record: int = 1,
    picture_every: int = 4,
    picture_size: int = 200,
    latency: bool = True,
    workers: int | None = None,
    batch: int = 5,
    progress: bool = True,
    make: Callable[..., Any] = make_env,
) -> Evaluation:
    """Run one episode a seed over `workers` processes, then time the policy in this one.

    `load` builds the policy and must be picklable, e.g. `functools.partial(load_policy, folder)`. `record` keeps the
    pictures and plan traces of the first episodes. The result does not depend on `workers`.
    """
    seeds, demonstrations = [int(seed) for seed in seeds], {int(seed) for seed in demonstration_seeds}
    check_seeds(seeds, demonstrations)
    build = partial(make, env_name, observation, **(options or {}))
    recording = Recording(tuple(seeds[:record]), picture_every, picture_size) if record else None
    job = Job(load, build, missing, full_length, recording)
    policy = load()
    method = method or str(getattr(policy, "label", type(policy).__name__))
    start = time.perf_counter()
    episodes = run_episodes(job, seeds, workers=workers, batch=batch, progress=progress, label=f"{method} {env_name}")
    seconds = time.perf_counter() - start
    timings: tuple[dict[str, Any], ...] = ()
    if latency:  # the workers are gone by now
        env = build()
        timings = tuple(one.as_dict() for one in measure_both(policy, env, seeds[0]))
        env.close()
    return Evaluation(
        method=method,
        task=env_name,
        observation=observation,
        episodes=tuple(episodes),
        preset=preset,
        training_seed=training_seed,
        training_minutes=training_minutes,
        demonstrations=len(demonstrations) or None,
        variant={**(variant or {}), **missing.options()},
        missing=missing.probability,
        options=dict(options or {}),
        seeds_checked=bool(demonstrations),
        execution_horizon=policy.execution_horizon,
        latency=timings,
        seconds=round(seconds, 2),
        commit=commit(),
        machine=machine(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def check_seeds(seeds: Sequence[int], demonstrations: Iterable[int]) -> None:
    """Evaluation counts unseen episodes, each once."""
    if not seeds:
        raise ConfigError("no evaluation seeds were given: ask for at least one episode")
    if any(seed < 0 for seed in seeds):
        raise ConfigError(f"evaluation seed {min(seeds)} is negative: seeds start at 0")
    repeated = sorted({seed for seed in seeds if seeds.count(seed) > 1}) if len(set(seeds)) < len(seeds) else []
    if repeated:
        raise ConfigError(f"evaluation seeds {_some(repeated)} occur more than once: an episode must count once")
    used = set(demonstrations)
    if shared := sorted(used.intersection(seeds)):
        raise SeedOverlapError(
            f"evaluation seeds {_some(shared)} were used for demonstrations: success there shows memory, not skill. "
            f"Take seeds above {max(used)}, e.g. --seed {max(DEVELOPMENT[0], max(used) + 1)}"
        )


def _some(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds[:10])) + (f" and {len(seeds) - 10} more" if len(seeds) > 10 else "")
