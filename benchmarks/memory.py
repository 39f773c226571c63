"""Peak memory of one forward and backward above its inputs, each measured in a process of its own.

    python -m benchmarks.memory infonce ours 8192 768

The gradients of the inputs count: they are what backward is for.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.cases import Case, cases, inputs, step
from hypersphere import streaming

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _status(field: str) -> int:
    """A size in bytes from the kernel's account of this process."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def peak_above(action: Callable[[], object]) -> int:
    """Bytes by which the resident memory rises at most while ``action`` runs."""
    try:
        _CLEAR.write_text("5")  # the highest mark starts again at what is resident now
        before = _status("VmRSS")
        action()
        return _status("VmHWM") - before
    except OSError:  # no such account: the highest mark of the whole process has to do
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        action()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def measure(case: Case, side: str, size: int, dim: int) -> int:
    """``side`` is "ours" or "plain"."""
    objective = case.create(dim)

    def loss(z1: torch.Tensor, z2: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if side == "ours":
            found: torch.Tensor = objective(z1, z2, labels)
            return found
        assert case.plain is not None
        return case.plain(objective, z1, z2, labels)

    few = inputs(64, dim)
    with streaming(32):  # so that what torch loads at first use is not counted
        step(loss, *few)
    many = inputs(size, dim)
    return peak_above(lambda: step(loss, *many))


def in_own_process(label: str, side: str, size: int, dim: int, threads: int) -> int | None:
    """Bytes, or None if the process was stopped or ran out of memory."""
    command = [sys.executable, "-m", "benchmarks.memory", label, side, str(size), str(dim), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(json.loads(done.stdout)["bytes"]) if done.returncode == 0 else None


if __name__ == "__main__":
    label, side, size, dim, threads = (*sys.argv[1:], "2")[:5]
    torch.set_num_threads(int(threads))
    chosen = next(case for case in cases() if case.label == label)
    print(json.dumps({"bytes": measure(chosen, side, int(size), int(dim))}))
