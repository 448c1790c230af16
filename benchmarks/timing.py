"""What the tables of `benchmarks.speed` share: the frames, the machine's idleness, the print-out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from mgp.data.collect import collect
from mgp.data.demonstrations import Demonstrations
from mgp.errors import ConfigError
from mgp.evaluation.csv_table import Line
from mgp.evaluation.idle import watched
from mgp.evaluation.speed_table import busy

TASK, POINTS = "metaworld/assembly", 512


def demonstrated(episodes: int, points: int = POINTS) -> Demonstrations:
    """Of the scripted expert, seen by the camera."""
    with tempfile.TemporaryDirectory() as folder:
        path, options = Path(folder) / "demonstrations.zarr", {"points": points}
        return Demonstrations.from_store(collect(TASK, path, episodes, options=options, progress=False))


def check_idle(allowed: bool) -> None:
    """Said at once, not after minutes."""
    with watched(1.0) as machine:
        pass
    if not machine.idle and not allowed:
        raise ConfigError(f"{busy(machine)}, or add --busy to print figures that are not written")


def show(lines: Sequence[Line], columns: Sequence[str]) -> None:
    cells = [list(columns), *([line.get(name, "") for name in columns] for line in lines)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
