"""Log lines, and what becomes of them when they are not read."""

from __future__ import annotations

import logging
import os

from mgp.runtime.server_log import MOST, ServerLog


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("mgp", logging.WARNING, __file__, 1, text, (), None)


def test_lines_are_written_in_order():
    reader, writer = os.pipe()
    lines = ServerLog(writer)
    for number in range(20):
        lines.emit(record(f"line {number}"))
    lines.finish()
    assert os.read(reader, 65536).decode().splitlines() == [f"line {number}" for number in range(20)]


def test_a_full_pipe_loses_lines_and_says_how_many():
    reader, writer = os.pipe()
    lines, long = ServerLog(writer), "x" * 999  # a thousand bytes each, of which a pipe takes 65
    for _ in range(3 * MOST):
        lines.emit(record(long))
    rest = b""
    while lines._waiting.unfinished_tasks:
        rest += os.read(reader, 65536)
    lines.emit(record("the end"))
    lines.finish()
    came = (rest + os.read(reader, 65536)).decode().splitlines()
    lost = [int(line[1:].split()[0]) for line in came if "lines were lost: the log is not read" in line]
    assert came[-1] == "the end"
    assert came.count(long) in range(MOST, 3 * MOST)
    assert came.count(long) + sum(lost) == 3 * MOST, "each is there, or counted"


def test_a_reader_that_is_gone_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    lines = ServerLog(writer)
    for _ in range(3):
        lines.emit(record("nobody"))
    lines.finish()
    assert not lines._waiting.unfinished_tasks
