"""Demonstrations by scripted experts, in parallel and resumable.

Candidates are the seeds `seed`, `seed + 1`, ...; the first `episodes` successful ones in that order are kept, so the
store depends neither on the number of processes nor on interruptions. Each finished episode is a file in
`<path>.partial/` until the store is written.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mgp.data.record import Episode, Partial, Recorder, refuse_other
from mgp.data.store import EpisodeStore
from mgp.errors import ConfigError, DataError
from mgp.files import lock, recover

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
        raise ConfigError(f"episodes={episodes} and workers={workers} must be >= 1 and seed={seed} >= 0; correct them")
    path = Path(path)
    partial = Partial(path.with_name(path.name + ".partial"))
    recorder = Recorder(env_name, observation, options or {})
    settings = {**recorder.settings, "seed": seed}
    with lock(path):
        recover(path)
        kept: list[Episode] = []
        seeds: list[int] = []
        success_steps: list[int] = []
        if force:  # the old store stays until the new one takes its place
            shutil.rmtree(partial.folder, ignore_errors=True)
        elif path.exists():
            store = EpisodeStore.open(path)
            refuse_other(path, store.meta, settings)
            if len(store) >= episodes:
                shutil.rmtree(partial.folder, ignore_errors=True)
                return store
            arrays = {key: np.split(store.load(key), store.episode_ends[:-1]) for key in store.keys}
            kept = [{key: parts[i] for key, parts in arrays.items()} for i in range(len(store))]
            seeds, success_steps = store.seeds.tolist(), list(store.meta["success_steps"])
        partial.prepare(settings)
        first = seeds[-1] + 1 if seeds else seed
        with tqdm(total=episodes, initial=len(kept), desc=f"collect {env_name}", disable=not progress) as bar:
            for candidate, episode in _successes(recorder, partial, first, episodes - len(kept), workers or _cpus()):
                success_steps.append(int(episode.pop("success").sum()))
                kept.append(episode)
                seeds.append(candidate)
                bar.update()
        store = EpisodeStore.write(path, kept, seeds, {**settings, "success_steps": success_steps})
        shutil.rmtree(partial.folder, ignore_errors=True)
    return store


def _successes(
    recorder: Recorder, partial: Partial, first: int, wanted: int, workers: int
) -> Iterator[tuple[int, Episode]]:
    """The first `wanted` successful episodes from seed `first` on, in the order of seeds."""
    last = first + 20 + 5 * wanted  # even the worst expert succeeds in four of five
    found = 0
    with _player(recorder, partial, min(workers, wanted)) as (ahead, begin, finish):
        for seed in range(first, last):
            for soon in range(seed, min(seed + min(ahead, wanted - found), last)):
                begin(soon)
            finish(seed)
            episode = partial.read(seed)
            if episode:
                found += 1
                yield seed, episode
            if found == wanted:
                return
    raise DataError(
        f"the expert of {recorder.env_name} succeeded in {found} of {last - first} episodes from seed {first} on, "
        f"{wanted} were asked for; try another seed or a longer horizon"
    )


@contextmanager
def _player(
    recorder: Recorder, partial: Partial, workers: int
) -> Iterator[tuple[int, Callable[[int], None], Callable[[int], None]]]:
    """(how many seeds to begin ahead, begin(seed), finish(seed)), here or in processes."""
    if workers == 1:

        def play(seed: int) -> None:
            if not partial.file(seed).exists():
                partial.play(recorder, seed)

        yield 1, play, lambda seed: None
        return

    running: dict[int, Future] = {}
    context = multiprocessing.get_context("spawn")
    with _one_thread_each(), ProcessPoolExecutor(workers, context, initializer=_start_worker) as pool:

        def begin(seed: int) -> None:
            if seed not in running and not partial.file(seed).exists():
                running[seed] = pool.submit(partial.play, recorder, seed)

        def finish(seed: int) -> None:
            try:
                if seed in running:
                    running[seed].result()
            except BrokenProcessPool as error:
                raise DataError("a collecting process died (out of memory?); call again to resume") from error

        try:
            yield 2 * workers, begin, finish
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """Ctrl-C reaches the parent, which lets running episodes end; a parent that was killed takes its workers along."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


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
