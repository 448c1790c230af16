"""Episodes over several processes.

Seeds are cut into batches of a fixed size, and a batch is computed the same way wherever it runs (one torch thread), so
the results do not depend on the number of workers, to the bit.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from tqdm import tqdm

from mgp.envs.base import RobotEnv
from mgp.errors import ConfigError, MGPError, SimulationError
from mgp.evaluation.episode import EpisodeResult, Recording
from mgp.evaluation.missing import NONE, Missing
from mgp.evaluation.rollout import rollout
from mgp.policies.base import Policy
from mgp.processes import SPAWN, cores, pool


@dataclass(frozen=True)
class Job:
    """What to run; picklable, so that a worker can build its own policy and environments from it."""

    load: Callable[[], Policy]  # e.g. functools.partial(load_policy, run_folder)
    make: Callable[[], RobotEnv]  # e.g. functools.partial(make_env, "metaworld/push", "cloud")
    missing: Missing = NONE
    full_length: bool = False
    recording: Recording | None = None


def run_episodes(
    job: Job,
    seeds: Sequence[int],
    *,
    workers: int | None = None,
    batch: int = 5,
    progress: bool = True,
    label: str = "evaluate",
) -> list[EpisodeResult]:
    """The results in the order of `seeds`. `workers=None` uses every core; 1 stays in this process."""
    if batch < 1 or (workers is not None and workers < 1):
        raise ConfigError(f"batch={batch}, workers={workers}: both must be at least 1")
    batches = [list(seeds[start : start + batch]) for start in range(0, len(seeds), batch)]
    workers = min(workers or cores(), max(len(batches), 1))
    with tqdm(total=len(seeds), desc=label, unit="episode", disable=not progress) as bar:
        successes = 0

        def count(outcomes: list[bool]) -> None:
            nonlocal successes
            successes += sum(outcomes)
            bar.update(len(outcomes))
            if outcomes:
                bar.set_postfix_str(f"success {successes}/{bar.n}")

        run = _run_here if workers == 1 else _run_in_processes
        return [result for results in run(job, batches, workers, count) for result in results]


Count = Callable[[list[bool]], None]


class _Crew:
    """A policy and the environments of one process, built once and used for batch after batch."""

    def __init__(self, job: Job):
        self.job, self.policy = job, job.load()
        self.envs: list[RobotEnv] = []

    def run(self, seeds: list[int], tick: Count) -> list[EpisodeResult]:
        self.envs += [self.job.make() for _ in range(len(seeds) - len(self.envs))]
        job = self.job
        return rollout(
            self.policy,
            self.envs,
            seeds,
            missing=job.missing,
            full_length=job.full_length,
            recording=job.recording,
            tick=tick,
        )

    def close(self) -> None:
        for env in self.envs:
            env.close()


def _run_here(job: Job, batches: list[list[int]], workers: int, count: Count) -> list[list[EpisodeResult]]:
    from mgp.policies.acting import torch_threads  # which imports torch

    with torch_threads(1):
        crew = _Crew(job)
        try:
            return [crew.run(seeds, count) for seeds in batches]
        finally:
            crew.close()


def _run_in_processes(job: Job, batches: list[list[int]], workers: int, count: Count) -> list[list[EpisodeResult]]:
    outcomes, stop = SPAWN.SimpleQueue(), SPAWN.Event()

    def drain() -> None:
        while not outcomes.empty():
            count(outcomes.get())

    with pool(workers, _begin, (job, outcomes, stop)) as executor:
        futures: list[Future] = [executor.submit(_run_there, seeds) for seeds in batches]
        waiting = set(futures)
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                drain()
                for future in finished:
                    future.result()  # raise at once, not after every other batch
            drain()
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            raise SimulationError(
                "an evaluation worker died (out of memory, or killed): try fewer workers or a smaller batch"
            ) from error
        finally:
            stop.set()  # after an error or Ctrl-C the batches still running end at their next round


# The state of a worker process; a pool serves one job, so there is never more than one.
_worker: dict = {}


def _begin(job: Job, outcomes, stop) -> None:
    import torch

    torch.set_num_threads(1)
    _worker.update(job=job, outcomes=outcomes, stop=stop)


def _run_there(seeds: list[int]) -> list[EpisodeResult]:
    def tick(ended: list[bool]) -> None:
        if _worker["stop"].is_set():
            raise MGPError("evaluation was stopped")
        if ended:
            _worker["outcomes"].put(ended)

    try:
        if "crew" not in _worker:  # built here and not in `_begin`, whose errors would only say that the pool broke
            _worker["crew"] = _Crew(_worker["job"])
        return _worker["crew"].run(seeds, tick)
    except Exception as error:
        raise _portable(error) from None


def _portable(error: Exception) -> Exception:
    """An error whose class cannot be rebuilt from its message would break the pool on arrival."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        kind = next(kind for kind in type(error).__mro__ if "__init__" not in vars(kind) or kind is Exception)
        return kind(str(error)) if issubclass(kind, MGPError) else SimulationError(f"{type(error).__name__}: {error}")
    return error
