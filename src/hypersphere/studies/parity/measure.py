"""Value and gradient of a peer's loss and of ours on the same rows, and how the two gradients differ.

On several processes the right gradient is that of one process that holds the whole batch. DDP averages the gradients of
the processes, so it reproduces this one for every encoder if and only if the gradient that each process finds for its
own rows is ``world_size`` times their rows of the right one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from hypersphere.studies.benchmark.cases import find_case
from hypersphere.studies.benchmark.peers import Loss
from hypersphere.studies.parity.setups import Setup, rank_and_size
from hypersphere.testing.example import views
from hypersphere.testing.workers import workers

ROWS, DIM = 8, 6  # rows of each process
EXACT = 1e-6  # relative difference below which two gradients are equal
EQUAL, FACTOR, DIRECTION = "equal", "factor", "direction"
Result = tuple[float, Tensor, Tensor]  # value, gradient of the rows (B, 2, D), gradient of the loss's parameters (P,)


@dataclass(frozen=True)
class Difference:
    """``ratio``: the length of the gradient along the right one, over that of the right one. ``largest``: the largest
    difference of an entry, over the largest entry of the right one. ``parameters``: as ``ratio``, for the gradient of
    the parameters that the loss gets from the model; None if there are none."""

    value: float
    right_value: float
    ratio: float
    cosine: float
    largest: float
    parameters: float | None = None

    @property
    def verdict(self) -> str:
        if self.largest <= EXACT:
            return EQUAL
        return FACTOR if 1 - self.cosine <= EXACT**2 else DIRECTION


def differ(actual: Result, right: Result) -> Difference:
    """How ``actual`` differs from the right one.

    >>> right = 1.0, torch.tensor([3.0, 4.0]), torch.zeros(0)
    >>> differ((1.0, 2 * right[1], right[2]), right).verdict
    'factor'
    >>> differ((1.0, torch.tensor([4.0, 3.0]), right[2]), right).verdict
    'direction'
    """
    ours, expected = actual[1].flatten().double(), right[1].flatten().double()
    rest = ours - (ours @ expected) / (expected @ expected) * expected
    sine = (rest.norm() / ours.norm()).item() if ours.any() else 1.0
    return Difference(
        value=actual[0],
        right_value=right[0],
        ratio=((ours @ expected) / (expected @ expected)).item(),
        # From the sine: the rounding of a cosine near 1 would hide small angles.
        cosine=math.copysign(math.sqrt(max(0.0, 1 - sine**2)), (ours @ expected).item()),
        largest=((ours - expected).abs().max() / expected.abs().max()).item(),
        parameters=((actual[2] @ right[2]) / (right[2] @ right[2])).item() if right[2].numel() else None,
    )


@contextmanager
def double() -> Iterator[None]:
    """New tensors are float64: some peers create a layer or a mask at each call."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def step(loss: Loss, z1: Tensor, z2: Tensor, labels: Tensor) -> Result:
    """One forward and backward."""
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    parameters = list(loss.parameters()) if isinstance(loss, torch.nn.Module) else []
    with warnings.catch_warnings(), double():
        warnings.simplefilter("ignore")  # theirs
        value = loss(a, b, labels)
        grads = torch.autograd.grad(value, [a, b, *parameters], allow_unused=True)
    rows = torch.stack([torch.zeros_like(a) if grad is None else grad for grad in grads[:2]], dim=1)
    own = [torch.zeros_like(p) if grad is None else grad for p, grad in zip(parameters, grads[2:], strict=True)]
    return value.item(), rows, torch.cat([grad.flatten() for grad in own]) if own else torch.zeros(0)


def losses(setup: Setup) -> tuple[Loss, Loss]:
    """The peer's loss and ours."""
    with double():
        ours = find_case(setup.case).create(DIM)
        ours.gather = True
        return setup.build(), ours


def batch(processes: int) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of all processes, in float64, and their labels: three classes, present on every process."""
    size = ROWS * processes
    return (*views(size, DIM), torch.arange(size) % 3)


def shard(setup: Setup, processes: int) -> list[Result]:
    """This process's part, for the peer's loss and ours."""
    mine = slice(rank_and_size()[0] * ROWS, (rank_and_size()[0] + 1) * ROWS)
    return [step(loss, *(rows[mine] for rows in batch(processes))) for loss in losses(setup)]


def averaged(shards: Sequence[Result]) -> Result:
    """What DDP makes of the processes' results: means of values and of parameters' gradients; an encoder's gradient is
    that of these rows."""
    values, rows, own = zip(*shards, strict=True)
    return sum(values) / len(values), torch.cat(rows) / len(rows), torch.stack(own).mean(dim=0)


def measure(setup: Setup, processes: int, timeout: float = 300.0) -> dict[str, Any]:
    """On one process theirs against ours; on several, theirs and ours against themselves on one process."""
    theirs, ours = (step(loss, *batch(processes)) for loss in losses(setup))
    if processes == 1:
        return {"theirs": _record(differ((*theirs[:2], torch.zeros(0)), (*ours[:2], torch.zeros(0))))}
    shards = workers(processes).run(shard, setup, processes, timeout=timeout)
    pairs = zip(("theirs", "ours"), zip(*shards, strict=True), (theirs, ours), strict=True)
    return {name: _record(differ(averaged(each), right)) for name, each, right in pairs}


def _record(difference: Difference) -> dict[str, Any]:
    return {**asdict(difference), "verdict": difference.verdict}
