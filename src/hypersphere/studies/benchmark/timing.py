"""Times that can be compared: taken in turns, so that a slow moment of the machine falls on all."""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import torch


def in_turns(actions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each action, A B C A B C …; a first untimed round if the actions are quick."""
    gc.collect()
    found: dict[str, list[float]] = {name: [] for name in actions}
    warm = False
    while min(len(each) for each in found.values()) < repeats:
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            found[name].append(time.perf_counter() - began)
        if not warm and sum(each[0] for each in found.values()) < 1:
            found = {name: [] for name in actions}
        warm = True
    return found


def fastest(times: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: min(each) for name, each in times.items()}


def typical(times: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: median(each) for name, each in times.items()}


def machine(threads: int) -> dict[str, str | int]:
    """What the numbers were taken on."""
    model = platform.processor() or platform.machine()
    described = Path("/proc/cpuinfo")
    if described.exists():
        lines = described.read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    return {"processor": model, "threads": threads, "torch": str(torch.__version__), "dtype": "float32"}


def duration(seconds: float) -> str:
    """
    >>> duration(4), duration(75), duration(600), duration(10000)
    ('4 s', '1 min', '10 min', '2.8 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
