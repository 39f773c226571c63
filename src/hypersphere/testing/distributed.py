"""Compares the gradient of a loss on several processes with that of one process that holds the whole batch."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hypersphere.objectives import Objective
from hypersphere.testing.example import (
    call,
    dimension,
    parameters,
    require_one_number,
    some_labels,
    takes_negatives,
    views,
)
from hypersphere.testing.workers import workers

Result = tuple[float, list[Tensor], list[Tensor | None]]


def assert_distributed_exact(
    objective: Any,
    world_size: int = 2,
    dim: int = 6,
    seed: int = 0,
    tolerance: float = 1e-9,
    timeout: float = 60.0,
    equal_shares: bool = False,
    value: Literal["same", "mean", "any"] = "same",
) -> None:
    """After DDP's averaging, an encoder's gradient on ``world_size`` real processes is that of one process.

    Every process gets a shard of the batch, embeds it with a DDP-wrapped encoder (float64) and calls the objective.
    Encoder gradient, gradient of the objective's own parameters, and value are compared with one process that embeds
    the whole batch. Each difference is reported separately.

    equal_shares: shards of one size, for a loss that gathers only such (open_clip's, sentence-transformers'); if not,
        every process has a shard of a different size.
    value: "same": every process reports the value of the whole batch; "mean": each process reports the value of its own
        anchors, and their mean over the processes is that of the whole batch (sentence-transformers', open_clip's with
        local_loss; with equal shards); "any": the value is not compared.

    Our own objectives are tried with ``gather=True``, with labels, and with and without extra negatives; any other
    module or picklable function is called on the two views unchanged.

    >>> import hypersphere as hs
    >>> assert_distributed_exact(hs.create_objective("infonce"), world_size=1)
    """
    if value not in ("same", "mean", "any"):
        raise ValueError(f"value must be 'same', 'mean' or 'any', not {value!r}")
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, not {world_size}")
    objective = copy.deepcopy(objective)
    if isinstance(objective, nn.Module):
        objective = objective.double()
        for module in objective.modules():
            if isinstance(module, Objective):
                module.gather = True
    dim = dimension(objective, dim)
    sizes = [4 if equal_shares else 3 + rank % 3 for rank in range(world_size)]  # uneven: 3, 4, 5, 3, …
    for extra in (0, 2) if takes_negatives(objective) else (0,):
        with torch.random.fork_rng(devices=[]):
            whole = _step(copy.deepcopy(objective), sizes, range(world_size), dim, seed, extra, False)
        try:
            shares = workers(world_size).run(_share, objective, sizes, dim, seed, extra, timeout=timeout)
        except (RuntimeError, TimeoutError) as error:
            if isinstance(objective, Objective) or len(set(sizes)) == 1:
                raise
            raise type(error)(
                f"{error}\n(the processes had {sizes} rows: try a loss that gathers equal shares with "
                "equal_shares=True)"
            ) from error
        problems = [_of_gradient(whole, shares, tolerance), *_of_parameters(whole, shares, tolerance)]
        problems.append(_of_value(whole[0], [each[0] for each in shares], value, tolerance))
        if any(problems):
            raise AssertionError("; ".join(problem for problem in problems if problem))


def _share(objective: Any, sizes: list[int], dim: int, seed: int, extra: int) -> Result:
    rank = torch.distributed.get_rank()
    return _step(objective, sizes, range(rank, rank + 1), dim, seed, extra, True)


def _step(objective: Any, sizes: list[int], ranks: range, dim: int, seed: int, extra: int, parallel: bool) -> Result:
    """One forward and backward on the shards of ``ranks``."""
    torch.manual_seed(seed)
    encoder: nn.Module = nn.Sequential(nn.Linear(dim, 8), nn.Tanh(), nn.Linear(8, dim)).double()
    if parallel:
        encoder = DistributedDataParallel(encoder)
    starts = [sum(sizes[:rank]) for rank in range(len(sizes))]
    mine = torch.cat([torch.arange(starts[rank], starts[rank] + sizes[rank]) for rank in ranks])
    x1, x2 = views(sum(sizes), dim, seed)
    rows = torch.cat([x1[mine], x2[mine]])
    negatives = None
    if extra:
        more = torch.cat([views(extra + rank, dim, seed + 1 + rank)[0] for rank in ranks])
        rows = torch.cat([rows, more])
    embedded = encoder(rows)
    z1, z2 = embedded[: len(mine)], embedded[len(mine) : 2 * len(mine)]
    if extra:
        negatives = embedded[2 * len(mine) :]
    value = require_one_number(call(objective, z1, z2, some_labels(sum(sizes))[mine], negatives))
    value.backward()
    own = [None if p.grad is None else p.grad.clone() for p in parameters(objective)]
    return value.item(), [p.grad.clone() for p in encoder.parameters() if p.grad is not None], own


def _of_gradient(whole: Result, shares: list[Result], tolerance: float) -> str:
    """The error in the encoder's gradient, which is the same on all processes; "" if there is none."""
    expected, actual = (torch.cat([gradient.flatten() for gradient in each[1]]) for each in (whole, shares[0]))
    error = (actual - expected).abs().max().item()
    if error <= tolerance * (1 + expected.abs().max().item()):
        return ""
    ratio = (actual @ expected / (expected @ expected)).item()
    rest = ((actual - ratio * expected).norm() / expected.norm()).item()
    kind = f"it is {ratio:.4g} times the right one" if rest < 1e-6 else "its direction is wrong too"
    return f"on {len(shares)} processes the encoder's gradient differs from that of one process by {error:.2e}, {kind}"


def _of_parameters(whole: Result, shares: list[Result], tolerance: float) -> list[str]:
    """The same for the objective's own parameters, which DDP does not average."""
    return [
        f"process {rank}: gradient of the objective's parameter {place} is {mine}, not {one}"
        for rank, (_, _, own) in enumerate(shares)
        for place, (mine, one) in enumerate(zip(own, whole[2], strict=True))
        if (mine is None) != (one is None)
        or (mine is not None and one is not None and not torch.allclose(mine, one, rtol=tolerance, atol=tolerance))
    ]


def _of_value(whole: float, reported: list[float], value: str, tolerance: float) -> str:
    """The same for the value that the processes report."""
    if value == "any":
        return ""
    near = tolerance * (1 + abs(whole))
    mean = sum(reported) / len(reported)
    if value == "mean":
        return (
            "" if abs(mean - whole) <= near else f"the processes' mean value is {mean:.8g}; one process has {whole:.8g}"
        )
    for rank, each in enumerate(reported):
        if not abs(each - whole) <= near:
            local = "; their mean is right, so pass value='mean' if that is meant" if abs(mean - whole) <= near else ""
            return f"process {rank} reports the value {each:.8g}; one process has {whole:.8g}{local}"
    return ""
