"""SIGTERM for commands that have something to save or to remove."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminable() -> Iterator[None]:
    """Makes SIGTERM act like Ctrl-C: runs save, uploads are removed."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt("SIGTERM")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
