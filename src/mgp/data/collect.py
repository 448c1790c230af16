"""Demonstrations by scripted experts, in parallel and resumable.

Candidates are the seeds `seed`, `seed + 1`, ...; the first `episodes` successful ones in that order are kept, so the
store depends neither on the number of processes nor on interruptions. Each finished episode is a file in
`<path>.partial/` until the store is written.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mgp.data.record import Episode, Partial, Recorder, refuse_other
from mgp.data.store import EpisodeStore
from mgp.errors import ConfigError, DataError
from mgp.files import lock, recover
from mgp.processes import cores, pool


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
    disturbed: bool = True,
) -> EpisodeStore:
    """A store with at least `episodes` successful demonstrations; call again to resume or to extend.

    `disturbed`: the robot is pushed about while it demonstrates, where its environment says how (disturbance.py).

    Processes are spawned, so a script that calls this needs the usual `if __name__ == "__main__":`.
    """
    if episodes < 1 or seed < 0 or (workers is not None and workers < 1):
        raise ConfigError(f"episodes={episodes} and workers={workers} must be >= 1 and seed={seed} >= 0; correct them")
    path = Path(path)
    partial = Partial(path.with_name(path.name + ".partial"))
    recorder = Recorder(env_name, observation, options or {}, disturbed)
    settings = {**recorder.settings, "seed": seed}
    with lock(path):
        recover(path)
        old: EpisodeStore | None = None
        seeds: list[int] = []
        success_steps: list[int] = []
        if force:  # the old store stays until the new one takes its place
            shutil.rmtree(partial.folder, ignore_errors=True)
        elif path.exists():
            old = EpisodeStore.open(path)
            refuse_other(path, old.meta, settings)
            if len(old) >= episodes:
                shutil.rmtree(partial.folder, ignore_errors=True)
                return old
            seeds, success_steps = old.seeds.tolist(), list(old.meta["success_steps"])
        partial.prepare(settings)
        first = seeds[-1] + 1 if seeds else seed
        new: list[int] = []
        wanted = episodes - len(seeds)
        with tqdm(total=episodes, initial=len(seeds), desc=f"collect {env_name}", disable=not progress) as bar:
            for candidate, steps in _successes(recorder, partial, first, wanted, workers or cores()):
                new.append(candidate)
                success_steps.append(steps)
                bar.update()
        # one episode at a time goes from the old store and from the files to the new store
        recorded: Iterable[Episode] = chain(old.episodes() if old else (), map(partial.read, new))
        store = EpisodeStore.write(path, recorded, [*seeds, *new], {**settings, "success_steps": success_steps})
        shutil.rmtree(partial.folder, ignore_errors=True)
    return store


def _successes(
    recorder: Recorder, partial: Partial, first: int, wanted: int, workers: int
) -> Iterator[tuple[int, int]]:
    """(seed, successful steps) of the first `wanted` successful episodes from seed `first` on, in that order."""
    last = first + 20 + 5 * wanted  # even the worst expert succeeds in four of five
    found = 0
    with _player(recorder, partial, min(workers, wanted)) as (ahead, begin, finish):
        for seed in range(first, last):
            for soon in range(seed, min(seed + min(ahead, wanted - found), last)):
                begin(soon)
            finish(seed)
            steps = partial.success_steps(seed)
            if steps:
                found += 1
                yield seed, steps
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
    with pool(workers) as executor:

        def begin(seed: int) -> None:
            if seed not in running and not partial.file(seed).exists():
                running[seed] = executor.submit(partial.play, recorder, seed)

        def finish(seed: int) -> None:
            try:
                if seed in running:
                    running[seed].result()
            except BrokenProcessPool as error:
                raise DataError("a collecting process died (out of memory?); call again to resume") from error

        yield 2 * workers, begin, finish
