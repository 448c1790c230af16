"""How long the policy thinks, at batch 1, as on one robot.

The clock runs inside the loop that evaluation itself uses, so what is timed is what is run. Whether the machine was
idle is watched meanwhile (`idle.py`): a latency from beside other processes is kept with a mark, and in no table.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from mgp.envs.base import Observation, RobotEnv
from mgp.evaluation.idle import REST, watched
from mgp.evaluation.rollout import rollout
from mgp.policies.base import Chunk, Policy


@dataclass(frozen=True)
class Timing:
    """Milliseconds; `sequence` is the sum over a whole episode, `step` is replan / execution horizon."""

    replan: float  # median
    replan_p95: float
    step: float
    sequence: float


@dataclass(frozen=True)
class Latency:
    threads: int
    replans: int  # timed
    policy: Timing
    with_observation: Timing  # and the looks at the frames the plan sees
    idle: bool = False  # whether the machine did nothing else meanwhile, as far as could be seen
    others: float | None = None  # cores that other processes used
    engine: str = "torch"  # that computed

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Latency:
        timings = {
            name: Timing(**{field: float(value) for field, value in content[name].items()})
            for name in ("policy", "with_observation")
        }
        others = content.get("others")
        return cls(
            threads=int(content["threads"]),
            replans=int(content["replans"]),
            **timings,
            idle=bool(content.get("idle", False)),  # before it was watched, nobody knew
            others=None if others is None else float(others),
            engine=str(content.get("engine", "torch")),
        )


def measure(
    policy: Policy, env: RobotEnv, seed: int, threads: int | None = None, warm_up: int = 3, rest: float = REST
) -> Latency:
    """Time one full-length episode. `threads=None`: torch's default. Run it while no workers are busy."""
    import torch  # not above: benchmarks of others' policies need intervals and seeds of this room, and no torch

    from mgp.policies.acting import torch_threads

    with watched(rest) as machine, torch_threads(threads or torch.get_num_threads()):
        first_plans(policy, env, seed, warm_up)
        thinking, looking = episode_times(policy, env, seed)
        used = torch.get_num_threads()
    return Latency(
        threads=used,
        replans=len(thinking),
        policy=_timing(thinking, policy.execution_horizon),
        with_observation=_timing(thinking + looking, policy.execution_horizon),
        idle=machine.idle,
        others=machine.cores,
        engine=engine_of(policy),
    )


def engine_of(policy: Policy) -> str:
    return str(getattr(policy, "engine", "torch"))


def first_plans(policy: Policy, env: RobotEnv, seed: int, count: int) -> None:
    """So many plans of an episode's first frame, untimed: the first ones allocate and choose kernels."""
    for _ in range(count):
        driver = policy.reset([seed])
        driver.see(0, env.reset(seed=seed)[0])
        driver.plan()


def episode_times(policy: Policy, env: RobotEnv, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds of each plan of one full-length episode, and of the looks before it; both (replans,)."""
    clock = _Clock()
    timed = cast(Policy, _TimedPolicy(policy, clock)), [cast(RobotEnv, _TimedEnv(env, clock))]
    rollout(*timed, [seed], full_length=True)
    return np.array(clock.plans) * 1e3, np.array(clock.looks) * 1e3


def measure_both(policy: Policy, env: RobotEnv, seed: int) -> list[Latency]:
    """With one thread and with torch's default number; other engines have one in any case."""
    import torch

    counts = sorted({1, torch.get_num_threads()} if engine_of(policy) == "torch" else {1})
    return [measure(policy, env, seed, count) for count in counts]


def _timing(milliseconds: np.ndarray, execution_horizon: int) -> Timing:
    middle, slow = np.percentile(milliseconds, (50, 95)).tolist()
    return Timing(
        replan=middle,
        replan_p95=slow,
        step=middle / execution_horizon,
        sequence=float(milliseconds.sum()),
    )


class _Clock:
    """Seconds of each plan, and of the looks before it."""

    def __init__(self) -> None:
        self.plans: list[float] = []
        self.looks: list[float] = []
        self.since_plan = 0.0


class _TimedPolicy:
    def __init__(self, policy: Policy, clock: _Clock):
        self._policy, self._clock = policy, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def plan(self, *arguments: Any) -> Chunk:
        self._clock.looks.append(self._clock.since_plan)
        self._clock.since_plan = 0.0
        start = time.perf_counter()
        chunk = self._policy.plan(*arguments)
        self._clock.plans.append(time.perf_counter() - start)
        return chunk


class _TimedEnv:
    def __init__(self, env: RobotEnv, clock: _Clock):
        self._env, self._clock = env, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, *, seed: int | None = None) -> tuple[Observation, dict]:
        first = self._env.reset(seed=seed)
        self.observe()  # `reset` looks too, but cannot be timed apart from setting up the world
        return first

    def observe(self) -> Observation:
        start = time.perf_counter()
        observation = self._env.observe()
        self._clock.since_plan += time.perf_counter() - start
        return observation
