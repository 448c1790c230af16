"""Whether anybody else computes on this machine: a latency taken beside them is no latency of the policy."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

STAT = Path("/proc/stat")
LIMIT = 0.1  # cores that others may use: daemons and terminals stay well below
REST = 0.25  # seconds of doing nothing before and after; in these, what others do shows clearest


@dataclass
class Others:
    """What other processes used of the machine; filled in when `watched` ends."""

    cores: float | None = None  # mean over the time watched, None where the system does not say

    @property
    def idle(self) -> bool:
        """Not to know is not to be idle."""
        return self.cores is not None and self.cores <= LIMIT


@contextmanager
def watched(rest: float = REST, stat: Path = STAT, children: Sequence[int] = ()) -> Iterator[Others]:
    """Watch the machine during the block, with a rest before and after it.

    `children`: processes that this one has started and that work for it, e.g. a server; they are no others. Those that
    have ended need not be named.
    """
    others, begin = Others(), _Snapshot.take(stat, children)
    time.sleep(rest)
    yield others
    time.sleep(rest)
    others.cores = _others(begin, _Snapshot.take(stat, children))


class _Snapshot(NamedTuple):
    """Seconds: on the clock, counted by all cores, of these busy, and used by this process and its children."""

    clock: float
    counted: float
    busy: float
    own: float

    @classmethod
    def take(cls, stat: Path, children: Sequence[int] = ()) -> _Snapshot | None:
        try:
            name, *ticks = stat.read_text().split("\n", 1)[0].split()
            # user nice system idle iowait irq softirq steal; what follows is counted in user already
            counts = [int(tick) / os.sysconf("SC_CLK_TCK") for tick in ticks[:8]]
        except (OSError, ValueError):
            return None
        if name != "cpu" or len(counts) < 5:
            return None
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        own += sum(_living(stat.parent / str(child) / "stat") for child in children)
        return cls(time.monotonic(), sum(counts), sum(counts) - sum(counts[3:5]), own)


def _living(stat: Path) -> float:
    """Seconds that a child and its own ended children have used.

    0 once it is gone: then `os.times` counts it, so that nothing is lost or counted twice if it ends meanwhile. Its
    number may be somebody else's by then, who has another parent.
    """
    try:
        _, parent, *rest = stat.read_text().rpartition(")")[2].split()
        return sum(map(int, rest[9:13])) / os.sysconf("SC_CLK_TCK") if int(parent) == os.getpid() else 0.0
    except (OSError, ValueError):
        return 0.0


def _others(begin: _Snapshot | None, end: _Snapshot | None) -> float | None:
    if begin is None or end is None:
        # no /proc: all that is known is a mean over the last minute, with our own work in it, so rather too high
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    passed, counted, busy, own = (after - before for before, after in zip(begin, end, strict=True))
    if counted < passed / 2:  # a sandbox whose counters stand still
        return None
    return round(max(0.0, busy - own) / passed, 3)
