"""Time and memory: how they are measured in this process, on which machine, and how they are written."""

from __future__ import annotations

import ctypes
import gc
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import torch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def in_turns(actions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each action, A B C A B C …; a first untimed round if the actions are quick."""
    gc.collect()
    times: dict[str, list[float]] = {name: [] for name in actions}
    warm = False
    while min(len(each) for each in times.values()) < repeats:
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - began)
        if not warm and sum(each[0] for each in times.values()) < 1:
            times = {name: [] for name in actions}
        warm = True
    return times


def fastest(times: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: min(each) for name, each in times.items()}


def typical(times: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: median(each) for name, each in times.items()}


def machine(threads: int) -> dict[str, str | int]:
    """The processor, threads, torch version and dtype behind the numbers."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    return {"processor": model, "threads": threads, "torch": str(torch.__version__), "dtype": "float32"}


def _status(field: str) -> int:
    """A size in bytes from the kernel's account of this process."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def _highest() -> int:
    """Highest resident memory of this process so far, in bytes; 0 if the system does not report it."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _trim() -> None:
    """Returns free but still resident memory to the system, so that using it again counts as a rise."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
        if trim is not None:
            trim(0)


def peak_above(action: Callable[[], object]) -> int:
    """The largest rise of the resident memory while ``action`` runs, in bytes."""
    _trim()
    try:
        _CLEAR.write_text("5")  # resets the peak to the memory that is resident now
        before = _status("VmRSS")
    except OSError:  # not supported: falls back to the peak of the whole process
        before = _highest()
        action()
        return _highest() - before
    action()
    return max(_status("VmHWM") - before, 0)


def allow(further: int) -> None:
    """Makes later allocations fail if they need more than ``further`` bytes above the present use.

    Has no effect on a system without such a limit.
    """
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (_status("VmData") + further, hard))
    except (ImportError, OSError, ValueError):
        return


def free_memory() -> int | None:
    """Bytes that can be used without swapping; None if the system does not report them."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def format_ratio(value: float | None) -> str:
    """Three significant digits at most.

    >>> [format_ratio(value) for value in (0.4567, 12.34, 123.4, 0.00123, None)]
    ['0.46', '12.3', '123', '0.001', '']
    """
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else _small(value)


def _small(value: float) -> str:
    return f"{value:.2f}" if value >= 0.095 else f"{value:.3f}"


def format_seconds(value: float | None) -> str:
    """
    >>> [format_seconds(value) for value in (95.0, 1.5, 0.0123, 45e-6, None)]
    ['95.00 s', '1.50 s', '12.3 ms', '45 µs', '']
    """
    if value is None:
        return ""
    return f"{value:.2f} s" if value >= 1 else f"{1e3 * value:.1f} ms" if value >= 1e-3 else f"{1e6 * value:.0f} µs"


def format_bytes(value: float | None) -> str:
    """Bytes in decimal units.

    >>> [format_bytes(value) for value in (12.3e9, 2.5e6, 345e6, 4096, None)]
    ['12.3 GB', '2.5 MB', '345 MB', '4 kB', '']
    """
    if value is None:
        return ""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if value >= unit:
            return f"{value / unit:.1f} {name}" if value < 100 * unit else f"{value / unit:.0f} {name}"
    return f"{value / 1e3:.0f} kB"


def format_duration(seconds: float) -> str:
    """
    >>> [format_duration(seconds) for seconds in (4, 75, 600, 10000)]
    ['4 s', '1 min', '10 min', '2.8 h']
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
