"""Does the score of a token fall when the scene has made it wrong? And do the tokens it doubts come back as others?

At the first look after the scene was shifted (at LOOKS of them, where it keeps moving: then the plan from before is
kept), each pending token of the plan as it stood has a score, by each of `sampling.scores`, and a truth (truth.py). The
figure is the AUROC: the chance that a token that is now wrong scores lower than one that is still right; 0.5 is a coin.
ATR ranks the tokens of one plan, so it is taken of each plan and averaged; pooled over all plans it stands beside.

Flip rates are the paper's, at every replanning of the episodes: the share of masked tokens that come back as another
code (or with other actions), masking those with the lowest scores and those with the highest, on the same plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from mgp.envs import make_env
from mgp.envs.base import RobotEnv
from mgp.errors import ConfigError
from mgp.evaluation.calibration_record import Calibration, FlipCount, TokenScore
from mgp.evaluation.episode import EpisodeResult, Recording
from mgp.evaluation.evaluate import check_seeds
from mgp.evaluation.parallel import Job, run_episodes
from mgp.evaluation.probe import MASKINGS
from mgp.evaluation.provenance import commit, machine
from mgp.evaluation.record import cloud_kind
from mgp.evaluation.scored import NAMES, ScoredTrace, load_scored
from mgp.evaluation.seeds import STUDY
from mgp.evaluation.truth import apart, changed_at, experts_actions, led_to, play
from mgp.policies.learned import LearnedPolicy
from mgp.policies.mgp import MGP

LOOKS = 8  # at most, at a plan that is kept in a scene that keeps moving


def study_calibration(
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
) -> Calibration:
    """`load(**sampling)` builds the policy and must be picklable, e.g. `Run.loader()`."""
    seeds, demonstrations = [int(seed) for seed in seeds], set(demonstration_seeds)
    check_seeds(seeds, demonstrations)
    build = partial(make, observation=observation, **(options or {}))
    env = build(env_name)
    if env.static_twin is None:
        raise ConfigError(
            f"{env_name} has no scene that changes, so that no token becomes wrong by it: choose one with a static"
            " twin, e.g. --env sorting/towel-nudged (docs/benchmark.md lists them)"
        )
    twin = build(env.static_twin)
    load = partial(load, variant="long")
    policy = load_scored(load).policy  # refuses MGP-Short before anything is rolled out
    # a scene that keeps moving is at first where it was: the plan is kept, and looked at until the end
    job = Job(partial(load_scored, load, env.moves_from), partial(build, env_name), recording=_all(seeds))
    tokens: list[TokenScore] = []
    flips: list[FlipCount] = []
    unsolved: list[int] = []
    results = run_episodes(job, seeds, workers=workers, batch=batch, progress=progress, label=f"{env_name}, scored")
    for result in results:
        trace = _trace(result)
        flips += [
            FlipCount(result.seed, replan, score, masking, *map(int, trace.flips[replan, place, other]))
            for replan in range(1, len(trace.flips))
            for place, score in enumerate(NAMES)
            for other, masking in enumerate(MASKINGS)
        ]
        for look in _looks(env, trace, result.seed, policy.execution_horizon):
            found = token_scores(policy, env, twin, trace, result.seed, look)
            if found is None:
                unsolved.append(result.seed)
                break
            tokens += found
    for one in (env, twin):
        one.close()
    return Calibration(
        env=env_name,
        twin=env.static_twin,
        trained_on=policy.config.task.name,
        seeds=tuple(seeds),
        unsolved=tuple(unsolved),
        successes=sum(result.success for result in results),
        score=policy.sampling.score,
        mask_ratio=policy.sampling.mask_ratio,
        tokens=tuple(tokens),
        flips=tuple(flips),
        commit=commit(),
        machine=machine(),
        cloud=cloud_kind(observation, options or {}),
        seeds_checked=bool(demonstrations),
    )


def _looks(env: RobotEnv, trace: ScoredTrace, seed: int, horizon: int) -> list[int]:
    """The replannings (0 is the first plan) that show the change: the first, or LOOKS of them if it keeps moving."""
    play(env, seed, np.concatenate(trace.actions))
    changed = changed_at(env)
    if changed is None:
        return []
    looks = [look for look in range(1, len(trace.actions)) if look * horizon > changed]
    return looks[:: -(-len(looks) // LOOKS) or 1] if env.moves_from is not None else looks[:1]


def token_scores(
    policy: MGP, env: RobotEnv, twin: RobotEnv, trace: ScoredTrace, seed: int, look: int
) -> list[TokenScore] | None:
    """The pending tokens of the plan as it stood at a look; None where the expert cannot go on from there."""
    per = policy.options.tokenizer.actions_per_token
    executed = np.concatenate(trace.actions[:look])
    begun = int(trace.executed[look])
    with torch.inference_mode():
        planned = policy.actions(torch.from_numpy(trace.standing[look : look + 1])).cpu().numpy()[0]  # (T, A)
    distances = []
    for scene in (twin, env):
        expert = experts_actions(scene, seed, executed)
        if expert is None:
            return None
        way = led_to(np.concatenate([executed, expert]), scene, per)[len(executed) :]
        distances.append(apart(led_to(planned, scene, per)[begun * per :], way))
    ends = range(per - 1, min(map(len, distances)), per)  # a token leads where its last action does
    return [
        TokenScore(
            seed=seed,
            step=len(executed),
            token=begun + index,
            before=round(float(distances[0][end]), 5),
            now=round(float(distances[1][end]), 5),
            scores={name: float(trace.ranking[look, place, begun + index]) for place, name in enumerate(NAMES)},
        )
        for index, end in enumerate(ends)
    ]


def _all(seeds: Sequence[int]) -> Recording:
    return Recording(tuple(seeds), every=0)


def _trace(result: EpisodeResult) -> ScoredTrace:
    assert isinstance(result.trace, ScoredTrace), "every episode was recorded"
    return result.trace
