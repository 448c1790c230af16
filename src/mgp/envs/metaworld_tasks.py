"""Names of the 50 Meta-World V3 tasks; written out, so that listing them needs no simulator."""

from __future__ import annotations

from mgp.errors import UnknownNameError

NAMES = """
    assembly basketball bin-picking box-close button-press button-press-topdown
    button-press-topdown-wall button-press-wall coffee-button coffee-pull coffee-push dial-turn
    disassemble door-close door-lock door-open door-unlock drawer-close drawer-open faucet-close
    faucet-open hammer hand-insert handle-press handle-press-side handle-pull handle-pull-side
    lever-pull peg-insert-side peg-unplug-side pick-out-of-hole pick-place pick-place-wall plate-slide
    plate-slide-back plate-slide-back-side plate-slide-side push push-back push-wall reach reach-wall
    shelf-place soccer stick-pull stick-push sweep sweep-into window-close window-open
"""
TASKS = tuple(NAMES.split())


def tasks() -> list[str]:
    return list(TASKS)


def check_task(task: str) -> None:
    if task not in TASKS:
        raise UnknownNameError("metaworld task", task, TASKS)
