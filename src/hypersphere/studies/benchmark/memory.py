"""Memory of this process as the kernel accounts for it."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _status(field: str) -> int:
    """A size in bytes from the kernel's account of this process."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def _highest() -> int:
    """Highest resident memory of the whole life of this process, in bytes; where there is no account: 0."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _give_back() -> None:
    """Returns what is free but still resident, so that using it again counts as a rise."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
        if trim is not None:
            trim(0)


def peak_above(action: Callable[[], object]) -> int:
    """Bytes by which the resident memory rises at most while ``action`` runs."""
    _give_back()
    try:
        _CLEAR.write_text("5")  # the highest mark starts again at what is resident now
        before = _status("VmRSS")
    except OSError:  # no such account: the highest mark of the whole process has to do
        before = _highest()
        action()
        return _highest() - before
    action()
    return max(_status("VmHWM") - before, 0)


def allow(further: int) -> None:
    """From now on an allocation fails if it needs more than ``further`` bytes above what is held now.

    Where the system keeps no such limit, nothing is limited.
    """
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (_status("VmData") + further, hard))
    except (ImportError, OSError, ValueError):
        return


def free_memory() -> int | None:
    """Bytes that could be used now without swapping, where the system says so."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
