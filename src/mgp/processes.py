"""Worker processes that neither outlive their parent, nor answer Ctrl-C, nor take more than a core each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# fork would copy torch's threads and locks in an unknown state
SPAWN = multiprocessing.get_context("spawn")


def cores() -> int:
    """The cores this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def pool(
    workers: int, begin: Callable[..., None] | None = None, arguments: tuple = ()
) -> Iterator[ProcessPoolExecutor]:
    """Spawned workers; each calls `begin(*arguments)` first. At the end, or on an error, what has not begun never does.

    A worker that dies breaks the pool: `concurrent.futures.process.BrokenProcessPool` comes from its futures.
    """
    with _one_thread_each(), ProcessPoolExecutor(workers, SPAWN, _begin_worker, (begin, arguments)) as executor:
        try:
            yield executor
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def _begin_worker(begin: Callable[..., None] | None, arguments: tuple) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent says what is to be done
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if begin is not None:
        begin(*arguments)


def _end_with_parent() -> None:
    """A pool's workers would wait for ever for a parent that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


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
