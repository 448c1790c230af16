"""Episodes of a simulated robot under a controller. Time is made up, so that a delay costs none and repeats exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tqdm import tqdm

from mgp.envs.base import RobotEnv
from mgp.errors import SimulationError
from mgp.policies.acting import torch_threads
from mgp.policies.base import Policy
from mgp.processes import cores, pool
from mgp.runtime.clock import VirtualClock
from mgp.runtime.controller import Controller
from mgp.runtime.doubt import Alarm
from mgp.runtime.guards import Guards
from mgp.runtime.limiter import Limits
from mgp.runtime.log import ControlLog
from mgp.runtime.robot import EnvRobot
from mgp.runtime.worker import Simulated


@dataclass(frozen=True)
class Trial:
    """What to run; picklable, so that a worker process can build its own policy and environment from it."""

    load: Callable[[], Policy]  # e.g. functools.partial(load_policy, run_folder)
    make: Callable[[], RobotEnv]  # e.g. functools.partial(make_env, "metaworld/push", "cloud")
    delay: float = 0.0  # seconds that a plan takes
    mode: str = "frozen"  # see `planning.MODES`
    rate: float = 20.0  # control steps a second
    every: int | None = None
    guards: Guards | None = None
    limits: Limits | Literal["demonstrated"] | None = "demonstrated"
    alarm: Alarm | None = None


def drive(policy: Policy, env: RobotEnv, seed: int, trial: Trial) -> ControlLog:
    """One episode, up to success or the environment's horizon."""
    clock = VirtualClock()
    robot = EnvRobot(env, seed, clock)
    controller = Controller(
        policy,
        robot,
        trial.rate,
        mode=trial.mode,
        every=trial.every,
        guards=trial.guards,
        limits=trial.limits,
        alarm=trial.alarm,
        clock=clock,
        worker=Simulated(clock, trial.delay),
        seed=seed,
    )
    log = controller.run()
    log.success = robot.success_step is not None
    return log


def drive_all(
    trial: Trial, seeds: Sequence[int], *, workers: int | None = None, progress: bool = True, label: str = "control"
) -> list[ControlLog]:
    """One episode a seed, in their order; the result does not depend on `workers` (None: every core)."""
    workers = min(workers or cores(), max(len(seeds), 1))
    with tqdm(total=len(seeds), desc=label, unit="episode", disable=not progress) as bar:
        logs = []
        if workers == 1:
            policy, env = trial.load(), trial.make()
            with torch_threads(1):
                for seed in seeds:
                    logs.append(drive(policy, env, seed, trial))
                    bar.update()
            env.close()
            return logs
        with pool(workers, _begin, (trial,)) as executor:
            for log in executor.map(_drive_there, seeds):
                logs.append(log)
                bar.update()
    return logs


_there: dict = {}  # the state of a worker process; a pool serves one trial


def _begin(trial: Trial) -> None:
    import torch

    torch.set_num_threads(1)
    _there["trial"] = trial


def _drive_there(seed: int) -> ControlLog:
    trial: Trial = _there["trial"]
    try:
        if "policy" not in _there:  # not in `_begin`, whose errors would only say that the pool broke
            _there.update(policy=trial.load(), env=trial.make())
        return drive(_there["policy"], _there["env"], seed, trial)
    except Exception as error:
        raise SimulationError(f"seed {seed}: {type(error).__name__}: {error}") from None
