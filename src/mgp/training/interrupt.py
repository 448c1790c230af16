"""Ctrl-C between two training steps, never inside one: half a step would be saved as a whole one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """A Ctrl-C that arrives inside the block takes effect at its end."""
    if threading.current_thread() is not threading.main_thread():  # signals go to the main thread only
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
    if pressed:
        signal.raise_signal(signal.SIGINT)
