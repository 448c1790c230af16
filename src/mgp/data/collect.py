"""Demonstrations by scripted experts, in parallel and resumable.

Candidates are the seeds `seed`, `seed + 1`, ...; the first `episodes` successful ones in that order are kept, so the
store depends neither on the number of processes nor on interruptions. Each finished episode is a file in
`<path>.partial/` until the store is written.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mgp.data.atomic import lock, recover, write_file
from mgp.data.store import EpisodeStore
from mgp.envs import RobotEnv, make_env
from mgp.errors import ConfigError, DataError

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def collect(
    env_name: str,
    path: str | Path,
    episodes: int,
    seed: int = 0,
    observation: str = "cloud",
    options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    progress: bool = True,
    force: bool = False,
) -> EpisodeStore:
    """A store with at least `episodes` successful demonstrations; call again to resume or to extend.

    Processes are spawned, so a script that calls this needs the usual `if __name__ == "__main__":`.
    """
    if episodes < 1 or seed < 0 or (workers is not None and workers < 1):
        raise ConfigError(f"episodes={episodes} and workers={workers} must be >= 1 and seed={seed} >= 0")
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    recorder = Recorder(env_name, observation, dict(options or {}))
    settings = {**recorder.settings, "seed": seed}
    with lock(path):
        if force:  # the old store stays until the new one takes its place
            shutil.rmtree(partial, ignore_errors=True)
        return _collect(recorder, settings, path, partial, episodes, workers or _cpus(), progress, force)


def _collect(
    recorder: Recorder,
    settings: dict[str, Any],
    path: Path,
    partial: Path,
    episodes: int,
    workers: int,
    progress: bool,
    afresh: bool,
) -> EpisodeStore:
    recover(path)
    done: list[dict[str, np.ndarray]] = []
    seeds: list[int] = []
    success_steps: list[int] = []
    if path.exists() and not afresh:
        store = EpisodeStore.open(path)
        _refuse_other(path, {key: store.meta.get(key) for key in settings}, settings)
        if len(store) >= episodes:
            shutil.rmtree(partial, ignore_errors=True)
            return store
        arrays = {key: np.split(store.load(key), store.episode_ends[:-1]) for key in store.keys}
        done = [{key: parts[i] for key, parts in arrays.items()} for i in range(len(store))]
        seeds = store.seeds.tolist()
        success_steps = list(store.meta["success_steps"])
    _open_partial(partial, settings)

    missing = episodes - len(done)
    first = seeds[-1] + 1 if seeds else settings["seed"]
    with tqdm(total=episodes, initial=len(done), desc=f"collect {recorder.env_name}", disable=not progress) as bar:
        for episode, candidate in _successes(recorder, partial, first, missing, workers):
            success_steps.append(int(episode.pop("success").sum()))
            done.append(episode)
            seeds.append(candidate)
            bar.update()
    store = EpisodeStore.write(path, done, seeds, {**settings, "success_steps": success_steps})
    shutil.rmtree(partial, ignore_errors=True)
    return store


class Recorder:
    """Plays the expert from a seed. Pickled into the processes; the environment is built where it is used."""

    def __init__(self, env_name: str, observation: str, options: dict[str, Any]):
        self.env_name, self.observation, self.options = env_name, observation, options
        self._env: RobotEnv | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_env": None}

    @property
    def env(self) -> RobotEnv:
        if self._env is None:
            self._env = make_env(self.env_name, self.observation, **self.options)
        return self._env

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "env": self.env_name,
            "observation": self.observation,
            "options": self.env.options,
            "horizon": self.env.horizon,
            "hold_action": self.env.hold_action.tolist(),
        }

    def __call__(self, seed: int) -> dict[str, np.ndarray]:
        """One full episode: what was seen before each action, the action, and whether the task was solved after it."""
        observation, _ = self.env.reset(seed=seed)
        expert = self.env.expert()
        steps: dict[str, list[np.ndarray]] = {key: [] for key in (*observation, "action", "success")}
        for _ in range(self.env.horizon):
            action = expert()
            for key, value in (*observation.items(), ("action", action)):
                steps[key].append(value)
            observation, _, terminated, truncated, info = self.env.step(action)
            steps["success"].append(np.asarray(info["success"]))
            if terminated or truncated:
                break
        return {key: np.stack(values) for key, values in steps.items()}


def _record(recorder: Recorder, partial: Path, seed: int) -> None:
    """Play one seed into its file; a failure leaves a file too, so that resuming does not play it again."""
    episode = recorder(seed)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **(episode if episode["success"].any() else {}))
    write_file(_file(partial, seed), buffer.getvalue())


def _file(partial: Path, seed: int) -> Path:
    return partial / f"episode-{seed}.npz"


def _read(partial: Path, seed: int) -> dict[str, np.ndarray] | None:
    """The episode of a seed, {} if the expert failed, None if it is yet to be played."""
    try:
        with np.load(_file(partial, seed), allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None


def _successes(
    recorder: Recorder, partial: Path, first: int, wanted: int, workers: int
) -> Iterator[tuple[dict[str, np.ndarray], int]]:
    """The first `wanted` successful episodes from seed `first` on, in the order of seeds."""
    last = first + 20 + 5 * wanted  # the worst expert succeeds in .8
    found = 0
    with _player(recorder, partial, min(workers, wanted)) as (ahead, play):
        for seed in range(first, last):
            for soon in range(seed, min(seed + ahead, last)):
                play(soon, soon == seed)
            episode = _read(partial, seed)
            if episode is None:
                raise DataError(f"{_file(partial, seed)} cannot be read back; check the disk and call again")
            if episode:
                found += 1
                yield episode, seed
            if found == wanted:
                return
    raise DataError(
        f"the expert of {recorder.env_name} succeeded in {found} of {last - first} episodes from seed {first} on, "
        f"{wanted} were asked for; try another seed or a longer horizon"
    )


@contextmanager
def _player(recorder: Recorder, partial: Path, workers: int) -> Iterator[tuple[int, Callable[[int, bool], None]]]:
    """(how many seeds to ask for ahead, play(seed, now)); `now` waits until the episode's file is there."""
    if workers == 1:

        def play_here(seed: int, now: bool) -> None:
            if _read(partial, seed) is None:
                _record(recorder, partial, seed)

        yield 1, play_here
        return

    running: dict[int, Future] = {}
    with _one_thread_each(), ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:

        def play(seed: int, now: bool) -> None:
            if seed not in running and _read(partial, seed) is None:
                running[seed] = pool.submit(_record, recorder, partial, seed)
            if now and seed in running:
                running[seed].result()

        try:
            yield workers + 1, play
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started inside use one thread: together they have the cores already."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _open_partial(partial: Path, settings: dict[str, Any]) -> None:
    partial.mkdir(parents=True, exist_ok=True)
    file = partial / "settings.json"
    if file.exists():
        _refuse_other(partial, json.loads(file.read_text()), settings)
    else:
        write_file(file, json.dumps(settings, indent=1).encode())


def _refuse_other(path: Path, there: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    different = [f"{key} {there.get(key)!r} (asked: {asked[key]!r})" for key in asked if there.get(key) != asked[key]]
    if different:
        raise DataError(f"{path} was made with {', '.join(different)}; use another path, or --force to replace it")
