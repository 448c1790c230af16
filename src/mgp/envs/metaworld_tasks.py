"""Names and difficulty of the 50 Meta-World V3 tasks."""

from __future__ import annotations

from metaworld.env_dict import ALL_V3_ENVIRONMENTS

from mgp.errors import UnknownNameError

# Difficulty as in DP3 and the paper, whose figures are of V2. Push-back, which some lists leave out, is hard.
LEVELS: dict[str, tuple[str, ...]] = {
    "medium": (
        "basketball", "bin-picking", "box-close", "coffee-pull", "coffee-push", "hammer", "peg-insert-side",
        "push-wall", "soccer", "sweep", "sweep-into",
    ),
    "hard": ("assembly", "hand-insert", "pick-out-of-hole", "pick-place", "push", "push-back"),
    "very-hard": ("disassemble", "pick-place-wall", "shelf-place", "stick-pull", "stick-push"),
}  # fmt: skip


def tasks() -> list[str]:
    return sorted(name.removesuffix("-v3") for name in ALL_V3_ENVIRONMENTS)


LEVELS = {"easy": tuple(task for task in tasks() if not any(task in names for names in LEVELS.values())), **LEVELS}


def check_task(task: str) -> None:
    if task not in tasks():
        raise UnknownNameError("metaworld task", task, tasks())


def level(task: str) -> str:
    """easy, medium, hard or very-hard."""
    check_task(task)
    return next(name for name, members in LEVELS.items() if task in members)
