"""What a call costs beside its arithmetic: ours and plain PyTorch in turns, at a batch of 256 and at one of 16.

At 16 rows there is hardly any arithmetic, so that the difference of the two is the fixed cost of a call: checks, the
layout of views and masks, rows that stay finite where a plain normalisation does not. At 256 rows ours cannot take less
than the plain form and that cost, unless its arithmetic is faster.

    python -m benchmarks.fixed_cost [OBJECTIVE ...]

Times are of this thread alone, so that other work on the machine changes them little; ratios are of minima.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from hypersphere.studies.benchmark.cases import as_loss, cases, inputs, step

DEFAULT = ("koleo", "macl", "plus", "xclr", "mv_infonce", "mv_dhel", "artanh_infonce", "infonce")
ROWS, FEW, DIM, REPEATS = 256, 16, 128, 200


def milliseconds(label: str, rows: int) -> tuple[float, float]:
    """Forward and backward of ours and of the plain form, the least of many in turns."""
    case = next(each for each in cases() if each.label == label)
    if case.plain is None:
        raise SystemExit(f"{label} has no plain form to compare with")
    objective = case.create(DIM)
    z1, z2, labels = inputs(rows, DIM)

    def seconds(loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> float:
        start = time.thread_time()
        step(loss, z1, z2, labels)
        return time.thread_time() - start

    both = as_loss(objective), partial(case.plain, objective)
    for loss in both:
        seconds(loss)
    gc.collect()
    times = [[seconds(loss) for loss in both] for _ in range(REPEATS)]
    ours, plain = (min(column) for column in zip(*times, strict=True))
    return 1e3 * ours, 1e3 * plain


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':16}{'ours':>8}{'plain':>8}{'ratio':>8}{'fixed':>8}{'(plain + fixed) / plain':>26}")
    for label in sys.argv[1:] or DEFAULT:
        ours, plain = milliseconds(label, ROWS)
        few, few_plain = milliseconds(label, FEW)
        fixed = few - few_plain
        print(
            f"{label:16}{ours:8.2f}{plain:8.2f}{ours / plain:8.2f}{fixed:8.2f}{(plain + fixed) / plain:26.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
