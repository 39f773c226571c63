"""Imports take seconds, and fewer without garbage collection. At Ctrl-C some libraries swallow the signal or fail with
another error."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def nothing_begun() -> Iterator[None]:
    """Inside, SIGINT and SIGTERM end the process at once with one sentence; there is nothing to clean up yet."""
    before = {}
    collecting = gc.isenabled()
    gc.disable()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if collecting:
            gc.enable()


def _leave(number: int, frame: FrameType | None) -> None:
    if int(os.environ.get("RANK", "0")) == 0:
        os.write(2, b"\nInterrupted; nothing was begun.\n")
    os._exit(128 + number)
