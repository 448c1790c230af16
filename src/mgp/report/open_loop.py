"""Predictions against held-out recordings, for runs that no simulator can judge."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgp.errors import DataError
from mgp.evaluation.open_loop import PICTURE, SHOWN, OpenLoop
from mgp.report.run_folder import RunFolder

PICTURE_BYTES = 600_000  # at most; a larger one is named instead of shown


def open_loop(runs: Sequence[RunFolder]) -> dict[str, Any] | None:
    """What open_loop.html asks for: a row for each run and its picture as a data address; None without any."""
    found = [(run, run.open_loop) for run in runs if run.open_loop is not None]
    if not found:
        return None
    longest = max(len(one.error_by_step) for _, one in found)
    ahead = [step for step in SHOWN if step <= longest]
    return {
        "head": (
            "Method",
            "Recordings",
            "Held out",
            "Error",
            "Repeating",
            *(f"{step} ahead" for step in ahead),
            "Tokens",
        ),
        "rows": [_row(one, ahead) for _, one in found],
        "pictures": [(f"{one.method} on {one.task}, {run.name}", *_picture(run.folder)) for run, one in found],
    }


def _row(one: OpenLoop, ahead: Sequence[int]) -> list[str]:
    by_step = [_figure(one.error_by_step[step - 1] if step <= len(one.error_by_step) else None) for step in ahead]
    counts = f"{one.episodes} episode{'s' * (one.episodes != 1)}, {one.plans} plans"
    return [one.method, one.task, counts, _figure(one.error), _figure(one.repeating), *by_step, _figure(one.tokens)]


def _figure(value: float | None) -> str:
    return "\N{EN DASH}" if value is None else f"{value:.3f}"


def _picture(folder: Path) -> tuple[str, str]:
    """The picture as a data address, or "" and why there is none."""
    path = folder / "eval" / PICTURE
    try:
        content = path.read_bytes()
        if not content.startswith(b"\x89PNG"):
            raise DataError("it is no PNG")
    except (OSError, DataError) as error:
        return "", f"{path} cannot be shown ({error}): run `mgp eval {folder}` again"
    if len(content) > PICTURE_BYTES:
        return "", f"{path} is left out to keep the page small"
    return f"data:image/png;base64,{base64.b64encode(content).decode()}", ""
