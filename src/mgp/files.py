"""Files and folders that are whole or absent: temporary name, fsync, rename; and checksums to prove it."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

from mgp.errors import CheckpointError


def fsync_path(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file; a crash leaves the old or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    fsync_path(path.parent)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f".{path.name}.{suffix}")


def recover(path: Path) -> None:
    """Finish a replacement of a folder that was cut off between its two renames."""
    new, old = _beside(path, "new"), _beside(path, "old")
    if not path.exists():
        for candidate in (new, old):  # a complete new one goes first
            if candidate.exists():
                os.replace(candidate, path)
                break
    elif old.exists():
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder to fill; once complete and flushed, it takes the place of `path`, old or new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    recover(path)
    temporary, new, old = _beside(path, f"{os.getpid()}.tmp"), _beside(path, "new"), _beside(path, "old")
    for stale in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):  # of a process that was killed
        shutil.rmtree(stale, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for root, _, files in os.walk(temporary):
            for name in files:
                fsync_path(Path(root, name))
            fsync_path(Path(root))
        if path.exists():
            # A folder cannot be renamed onto a full one, so there is a moment without `path`; `recover` closes it.
            shutil.rmtree(new, ignore_errors=True)
            os.replace(temporary, new)
            os.replace(path, old)
            with suppress(FileNotFoundError):  # a reader came in between and recovered it
                os.replace(new, path)
        else:
            os.replace(temporary, path)
        fsync_path(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """One process at a time works on `path`; another waits here. The system frees it when a process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(_beside(path, "lock")):
        yield


def seal(folder: Path, meta: dict[str, Any]) -> None:
    """Write meta.json, with the checksum of every other file of the folder and of its own content."""
    sums = {file.name: sha256(file) for file in sorted(folder.iterdir())}
    content = json.loads(json.dumps({**meta, "sha256": sums}))
    (folder / "meta.json").write_text(json.dumps({**content, "seal": _digest(content)}, indent=2))


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def unseal(folder: Path, version: int, only: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Check format and checksums of a sealed folder (of the files in `only`, else of all), return its meta."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        sums = dict(meta["sha256"])
        if meta.pop("seal") != _digest(meta):
            raise ValueError("its checksum differs")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{folder} is no checkpoint or its meta.json is damaged ({error}): name a folder that `mgp train` wrote"
        ) from error
    if meta.get("format") != version:
        raise CheckpointError(
            f"{folder} has format {meta.get('format')}, this version reads {version}, in which every policy has"
            " settings of its own: act with the mgp that wrote it, or train again (mgp train --method ... --task ...)"
        )
    for name, digest in sums.items():
        if only is not None and name not in only:
            continue
        file = folder / name
        if not file.is_file():
            raise CheckpointError(f"{file} is missing: restore it, or resume from an earlier checkpoint beside it")
        if sha256(file) != digest:
            raise CheckpointError(f"{file} is corrupted (checksum differs): use an earlier checkpoint beside it")
    return meta


def sha256(file: Path) -> str:
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
