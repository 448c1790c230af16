"""Log lines that nobody waits for: who reads them may be slow, or a full pipe that is read no more."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time

MOST = 1000  # lines that wait to be written; more are lost, and counted


class ServerLog(logging.Handler):
    """Writes from a thread of its own, so that a log never holds up the loop that answers robots."""

    def __init__(self, descriptor: int = 2):
        super().__init__()
        self.descriptor, self.lost = descriptor, 0
        self._waiting: queue.Queue[str] = queue.Queue(MOST)
        threading.Thread(target=self._write, name="mgp-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            lost = f"({self.lost} lines were lost: the log is not read)\n" if self.lost else ""
            self._waiting.put_nowait(f"{lost}{self.format(record)}\n")
            self.lost = 0
        except queue.Full:
            self.lost += 1

    def finish(self, seconds: float = 1.0) -> None:
        """Wait for what is left to be written, but no longer than that."""
        until = time.monotonic() + seconds
        while self._waiting.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)

    def _write(self) -> None:
        while True:
            left = self._waiting.get().encode()
            try:
                while left:  # past the buffers of sys.stderr, whose lock would be waited for when the process ends
                    left = left[os.write(self.descriptor, left) :]
            except OSError:  # the reader is gone
                self.lost += 1
            self._waiting.task_done()
