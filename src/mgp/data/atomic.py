"""Folders that are replaced whole: after a crash there is the old one or the new one, never half of one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: then nobody waits
    fcntl = None  # type: ignore[assignment]


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def sync_tree(folder: Path) -> None:
    """Flush every file and folder below, and the folder itself, to the disk."""
    for root, _, files in os.walk(folder):
        for name in files:
            _sync(Path(root, name))
        _sync(Path(root))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def recover(path: Path) -> None:
    """Finish a replacement that was cut off between its two renames."""
    new, old = _beside(path, ".new"), _beside(path, ".old")
    if not path.exists():
        for candidate in (new, old):  # a complete new one goes first
            if candidate.exists():
                os.rename(candidate, path)
                break
    elif old.exists():
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder to fill; at the end it takes the place of `path`, whether or not that existed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    recover(path)
    temporary, new, old = _beside(path, f".tmp-{os.getpid()}"), _beside(path, ".new"), _beside(path, ".old")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        sync_tree(temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    # A folder cannot be renamed onto a full one, so there is a moment without `path`; `recover` closes it.
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    os.rename(temporary, new)
    if path.exists():
        os.rename(path, old)
    with suppress(FileNotFoundError):  # a reader came in between and recovered it
        os.rename(new, path)
    _sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def write_file(path: Path, content: bytes) -> None:
    """Write one file so that it is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """One process at a time works on `path`; another waits here. The system frees it when a process dies."""
    if fcntl is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
