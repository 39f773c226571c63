"""Objectives on a GPU beside their plain form: seconds and memory of forward and backward, as lines of a CSV file."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from hypersphere.studies.benchmark.cases import OURS, PLAIN, Case, as_loss, inputs, step

SIZES = (1024, 4096, 16384, 65536)
COLUMNS = ("device", "torch", "cuda", "tf32", "objective", "by", "size", "dim", "seconds", "peak_bytes", "problem")
Line = dict[str, Any]


def find_device(name: str) -> torch.device:
    """The device of this name; raises if it is not here."""
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"--device must be cpu, cuda or cuda:NUMBER, not {name!r}.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"there is no GPU here that torch {torch.__version__} can use, so nothing was measured.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"there is no {name}: GPUs are numbered from cuda:0 to cuda:{torch.cuda.device_count() - 1}.")
    return device


def describe(device: torch.device) -> Line:
    """The device, the versions, and whether the user allowed TF32 products."""
    cuda = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if cuda else "cpu",
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda or ""),
        "tf32": torch.get_float32_matmul_precision() != "highest",
    }


def measured(
    wanted: Sequence[Case], sizes: Sequence[int], dim: int, repeats: int, device: torch.device
) -> Iterator[Line]:
    """A line for each case, size and form; what does not fit into memory has a problem instead of numbers."""
    about = describe(device)
    for case in wanted:
        objective = case.create(dim).to(device)
        plain = case.plain
        forms: dict[str, Callable[..., Any]] = {OURS: as_loss(objective)}
        if plain is not None:
            forms[PLAIN] = partial(plain, objective)
        for size in sizes:
            z1, z2, labels = (each.detach().to(device).requires_grad_(each.requires_grad) for each in inputs(size, dim))
            for by, form in forms.items():
                line = {**about, "objective": case.label, "by": by, "size": size, "dim": dim}
                try:
                    numbers = _numbers(partial(step, form, z1, z2, labels), repeats, device)
                except torch.OutOfMemoryError:
                    numbers = {"problem": "out of memory"}
                    torch.cuda.empty_cache()
                yield {**dict.fromkeys(COLUMNS, ""), **line, **numbers}


def _numbers(action: Callable[[], object], repeats: int, device: torch.device) -> Line:
    """The fastest of ``repeats`` after one that warms up, and the peak of memory above what was there."""
    cuda = device.type == "cuda"
    before = torch.cuda.memory_allocated(device) if cuda else 0
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    action()
    numbers: Line = {"peak_bytes": torch.cuda.max_memory_allocated(device) - before if cuda else ""}
    times = []
    for _ in range(repeats):
        _wait(device)
        began = time.perf_counter()
        action()
        _wait(device)  # for what is still in the device's queue
        times.append(time.perf_counter() - began)
    return {"seconds": f"{min(times):.6g}", **numbers}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def as_csv(lines: Sequence[Line]) -> str:
    written = io.StringIO()
    writer = csv.DictWriter(written, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return written.getvalue()
