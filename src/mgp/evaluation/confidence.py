"""The paper's "Confidence score analysis": how sure MGP-Long is while it acts, and what refinement changes.

What the paper measured, on disassemble: "at each replan we either (i) mask the bottom 70 % (default) or (ii) mask the
top 70 % high-confidence tokens, and report task success and the flip rate (fraction of masked tokens that change after
refinement)". It reports a success for each, so each masking drove the robot in roll-outs of its own. This is done here,
on the same seeds. But the two drivers soon stand in different places with different plans, so their flip rates differ
by more than the choice of tokens. Therefore, at every replanning, both maskings are also applied to the *same* plan
under the *same* observation, and only the driver's own comes to pass (`probe.py`).

The paper counts changes of *code*. With a codebook of near-duplicates most of them change nothing that the robot would
do, so tokens whose decoded *actions* change are counted beside them (`probe.ACTION_CHANGE`).

A scene that begins to move is set beside its static twin on the same seeds. ATR edits what has become wrong, which
may hide a fall of confidence; so the last plan from before the motion is also *kept*, unedited, in both scenes. Then
the robot does the same in both, and a difference in confidence is that of what is seen.

The first plan of an episode is left out of the flips: it replaces nothing. Episodes end at success, as in `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mgp.envs import make_env
from mgp.evaluation.confidence_parts import KEPT, Outcome, Replan
from mgp.evaluation.confidence_record import ConfidenceStudy
from mgp.evaluation.episode import EpisodeResult, Recording
from mgp.evaluation.evaluate import check_seeds
from mgp.evaluation.parallel import Job, run_episodes
from mgp.evaluation.probe import ACTION_CHANGE, MASKINGS, ProbedTrace, load_probed
from mgp.evaluation.provenance import commit, machine
from mgp.evaluation.record import cloud_kind
from mgp.evaluation.seeds import STUDY
from mgp.policies.base import PlanTrace
from mgp.policies.learned import LearnedPolicy

DRIVERS = {"atr": "masking the least sure", "inverse": "masking the surest", KEPT: "keeping the plan"}
MAPS = 3  # episodes whose whole trace is kept, for the heat-map and the mask map


def study_confidence(
    load: Callable[..., LearnedPolicy],
    env_name: str,
    observation: str = "cloud",
    options: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = STUDY[:10],
    demonstration_seeds: Iterable[int] = (),
    *,
    workers: int | None = None,
    batch: int = 5,
    progress: bool = True,
    make: Callable[..., Any] = make_env,
) -> ConfidenceStudy:
    """Roll out each masking on the same seeds; if the scene moves, also ATR in its static twin and a kept plan in both.

    `load(**sampling)` builds the policy and must be picklable, e.g. `Run.loader()`.
    """
    seeds, demonstrations = [int(seed) for seed in seeds], set(demonstration_seeds)
    check_seeds(seeds, demonstrations)
    env = make(env_name, observation, **(options or {}))
    moves_from = env.moves_from
    # before and after are those of all episodes; a scene that is shifted at another step in each is studied as it is
    twin = env.static_twin if moves_from is not None else None
    env.close()
    policy = load_probed(load).policy  # refuses MGP-Short before anything is rolled out
    # (environment, driver): the driver's own masking is the one that comes to pass
    plan = [(env_name, driver) for driver in MASKINGS.values()]
    if twin:
        plan += [(twin, "atr"), (env_name, KEPT), (twin, KEPT)]
    outcomes: list[Outcome] = []
    replans: list[Replan] = []
    traces: dict[int, PlanTrace] = {}
    for name, driver in plan:
        scoring, keep_after = ("atr", moves_from) if driver == KEPT else (driver, None)
        job = Job(
            partial(load_probed, partial(load, scoring=scoring, variant="long"), keep_after),
            partial(make, name, observation, **(options or {})),
            recording=Recording(tuple(seeds), every=0),
        )
        label = f"{name}, {DRIVERS[driver]}"
        for result in run_episodes(job, seeds, workers=workers, batch=batch, progress=progress, label=label):
            outcomes.append(Outcome(name, driver, result.seed, result.success, result.steps))
            replans += rows(result, name, driver, policy.execution_horizon, policy.options.tokenizer.actions_per_token)
            if (name, driver) == plan[0] and len(traces) < MAPS:
                traces[result.seed] = _trace(result)
    return ConfidenceStudy(
        env=env_name,
        trained_on=policy.config.task.name,
        twin=twin,
        moves_from=moves_from,
        execution_horizon=policy.execution_horizon,
        mask_ratio=policy.sampling.mask_ratio,
        temperature=policy.sampling.temperature,
        action_change=ACTION_CHANGE,
        outcomes=tuple(outcomes),
        replans=tuple(replans),
        traces=traces,
        commit=commit(),
        machine=machine(),
        cloud=cloud_kind(observation, options or {}),
        seeds_checked=bool(demonstrations),
    )


def rows(result: EpisodeResult, env: str, driver: str, horizon: int, per_token: int) -> list[Replan]:
    """The replanning steps of an episode: `horizon` actions are executed at each, `per_token` to a token."""
    trace, out = _trace(result), []
    for index, executed in enumerate(trace.executed):
        pending, coming = slice(executed, None), slice(executed, executed + horizon // per_token)
        counts = {
            f"{name}_{kind}": int(getattr(trace, f"{name}_{kind}")[index].sum())
            for name in MASKINGS
            for kind in ("masked", "flipped", "flipped_action")
        }
        out.append(
            Replan(
                env=env,
                driver=driver,
                seed=result.seed,
                replan=index + 1,
                step=index * horizon,
                standing=_mean(trace.standing[index, pending]),
                standing_next=_mean(trace.standing[index, coming]),
                refined=_mean(trace.confidence[index, pending]),
                refined_next=_mean(trace.confidence[index, coming]),
                **counts,
            )
        )
    return out


def _trace(result: EpisodeResult) -> ProbedTrace:
    assert isinstance(result.trace, ProbedTrace), "every episode was recorded"
    return result.trace


def _mean(values: np.ndarray) -> float | None:
    """None where there is no plan yet, or nothing of it left."""
    known = values[np.isfinite(values)]
    return round(float(known.mean()), 5) if len(known) else None
