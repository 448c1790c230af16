"""Evaluation seeds by purpose, and the ledger of the test blocks: which was used when, and for what.

- DEVELOPMENT: look as often as you like, choose options by it; no figure of it stands in a table.
- IN_TRAINING: the evaluations in the course of a training.
- STUDY: looking into a policy (`mgp analyze`).
- test blocks of SIZE seeds each, block k from 100000 + 1000 k on: one for each *edition* of a table.

Methods that are compared must act in the same episodes, so an edition of a table has one block for all its methods and
tasks. `claim` gives the block, and enters in results/blocks.csv for whom:

1. a method on a task that the newest edition does not have yet joins it, on its block;
2. the same once more, with the same digest of its preset, is the same row again, on the same block;
3. with another digest it has been seen on this block and was changed since: the table gets a new edition on a fresh
   block. Rows of the other methods stay on their old block until they are made again, which rule 1 puts on the new
   one; rows of different blocks must not be compared. Going back to an earlier preset is a change too: to choose
   between two presets by their test figures is to tune on them.

Changes of the *code* do not show in a digest: who makes one that changes what is learned or seen opens a new edition by
hand, with the reason (`open_edition`).
Lines whose block is "history" are of the time before there were blocks; nothing is claimed from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mgp import config
from mgp.errors import ConfigError
from mgp.evaluation.csv_table import Line, changed, read
from mgp.evaluation.provenance import reproducible

DEVELOPMENT = range(10_000, 20_000)
IN_TRAINING = range(20_000, 30_000)
STUDY = range(40_000, 50_000)
FIRST_TEST, SIZE = 100_000, 1_000

LEDGER = "blocks.csv"
COLUMNS = ("block", "first_seed", "table", "method", "task", "digest", "commit", "date", "note")


def block_seeds(block: int, episodes: int) -> range:
    """The first `episodes` seeds of a test block."""
    if block < 0:
        raise ConfigError(f"test block {block} is negative: blocks count from 0")
    if not 1 <= episodes <= SIZE:
        raise ConfigError(f"{episodes} episodes do not fit a test block: ask for 1 to {SIZE}")
    first = FIRST_TEST + SIZE * block
    return range(first, first + episodes)


def block_of(seeds: Iterable[int]) -> int | None:
    """The test block that holds all of them, None if there is none."""
    blocks = {(seed - FIRST_TEST) // SIZE if seed >= FIRST_TEST else None for seed in seeds}
    return blocks.pop() if len(blocks) == 1 else None


def digest(preset: Mapping[str, Any], leave_out: Iterable[str] = ("seed",)) -> str:
    """Twelve digits that change with any setting but the training seed, which is repeated on the same block."""
    kept = {name: value for name, value in preset.items() if name not in set(leave_out)}
    return config.digest(kept)


def claim(
    ledger: Path, table: str, method: str, task: str, digest: str, commit: str, *, block: int | None = None
) -> int:
    """The test block on which a preset's method may be evaluated for a table; see the rules above.

    `block` asks for a certain one, to repeat an old row: it must have been claimed for just this preset.
    """
    _check_commit(commit)
    with changed(ledger, COLUMNS) as lines:
        numbered = [line for line in lines if _number(line) >= 0]
        who = {"table": table, "method": method, "task": task}
        mine = [line for line in numbered if who.items() <= line.items()]
        if block is not None:
            _check_repeated(mine, block, who, digest)
            return block
        newest = max((_number(line) for line in numbered if line["table"] == table), default=None)
        seen = {line["digest"] for line in mine if _number(line) == newest}
        if newest is not None and seen == {digest}:
            return newest
        if newest is None or seen:
            newest = _unused(numbered)
        lines.append(_entry(newest, commit, **who, digest=digest))
        return newest


def open_edition(ledger: Path, table: str, commit: str, note: str) -> int:
    """A fresh block for a table, for a reason that no digest shows; whoever claims next for the table joins it."""
    if not note.strip():
        raise ConfigError(f"a new edition of {table!r} uses up a test block: say why, in a note")
    _check_commit(commit)
    with changed(ledger, COLUMNS) as lines:
        block = _unused([line for line in lines if _number(line) >= 0])
        lines.append(_entry(block, commit, table=table, note=note))
        return block


def entries(ledger: Path) -> list[Line]:
    """The lines of the numbered blocks."""
    return [line for line in read(ledger)[1] if _number(line) >= 0] if ledger.exists() else []


def _check_commit(commit: str) -> None:
    if not reproducible(commit):
        raise ConfigError(
            f"commit {commit!r} cannot be checked out again, and a test block is for code that can: commit, then train "
            "and evaluate from a clean clone"
        )


def _check_repeated(mine: list[Line], block: int, who: dict[str, str], digest: str) -> None:
    if any(_number(line) == block and line["digest"] == digest for line in mine):
        return
    held = [f"{line['block']} ({line['digest']})" for line in mine]
    raise ConfigError(
        f"test block {block} was not claimed for {who['method']} on {who['task']} of table {who['table']!r} with "
        f"preset digest {digest}; claimed were: {', '.join(held) or 'none'}. A preset is evaluated on one block: leave "
        "the block out, and the ledger gives the right one"
    )


def _number(line: Line) -> int:
    """-1: history."""
    return int(line["block"]) if line.get("block", "").isdecimal() else -1


def _unused(numbered: list[Line]) -> int:
    return max(map(_number, numbered), default=-1) + 1


def _entry(block: int, commit: str, **who: str) -> Line:
    first = FIRST_TEST + SIZE * block
    return {"block": str(block), "first_seed": str(first), **who, "commit": commit, "date": f"{datetime.now(UTC):%F}"}
