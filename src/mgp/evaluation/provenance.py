"""Where a result came from: the commit of the code and the machine it ran on."""

from __future__ import annotations

import functools
import platform
import subprocess
from pathlib import Path

from mgp.processes import cores

SOURCE = Path(__file__).resolve().parents[1]
DIRTY, UNKNOWN = "+dirty", "unknown"


def commit(source: Path = SOURCE) -> str:
    """Short commit of the code in use, "+dirty" when it has been changed since, "unknown" without a repository."""
    try:
        head = _git(source, "rev-parse", "--short=12", "HEAD")
        if _git(source, "ls-files", "--", ".") == "":
            return UNKNOWN  # installed inside somebody else's repository
        # results are left out: writing one row must not make the next one dirty
        changes = _git(source, "status", "--porcelain", "--", ":(top)", ":(top,exclude)results")
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    return head + (DIRTY if changes else "")


def reproducible(commit: str) -> bool:
    """Whether the code can be checked out again; `commit` may be several, with blanks between."""
    return bool(commit) and not any(one.endswith(DIRTY) or one == UNKNOWN for one in commit.split())


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()


@functools.cache
def machine() -> str:
    """Processor and cores, e.g. "Intel(R) Xeon(R), 2 cores"."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    count = cores()
    return f"{model}, {count} core{'s' * (count != 1)}"
