"""Does a loss on several processes have the gradient of one process that holds the whole batch?"""

from __future__ import annotations

import copy
from typing import Any

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
) -> None:
    """After DDP's averaging, an encoder's gradient on ``world_size`` real processes is that of one process.

    Every process gets a share of a different size, embeds it with a DDP-wrapped encoder (float64) and calls the
    objective; value, encoder gradient and the gradient of the objective's own parameters are compared with one
    process that embeds the whole batch. Our own objectives are tried with ``gather=True``, with labels, and with
    and without extra negatives; any other module or picklable function is called on the two views as it is.

    >>> import hypersphere as hs
    >>> assert_distributed_exact(hs.create_objective("infonce"), world_size=1)
    """
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, not {world_size}")
    objective = copy.deepcopy(objective)
    if isinstance(objective, nn.Module):
        objective = objective.double()
        for module in objective.modules():
            if isinstance(module, Objective):
                module.gather = True
    dim = dimension(objective, dim)
    sizes = [3 + rank % 3 for rank in range(world_size)]  # uneven: 3, 4, 5, 3, …
    for extra in (0, 2) if takes_negatives(objective) else (0,):
        with torch.random.fork_rng(devices=[]):
            whole = _step(copy.deepcopy(objective), sizes, range(world_size), dim, seed, extra, False)
        shares = workers(world_size).run(_share, objective, sizes, dim, seed, extra, timeout=timeout)
        _compare(whole, shares, tolerance)


def _share(objective: Any, sizes: list[int], dim: int, seed: int, extra: int) -> Result:
    rank = torch.distributed.get_rank()
    return _step(objective, sizes, range(rank, rank + 1), dim, seed, extra, True)


def _step(objective: Any, sizes: list[int], ranks: range, dim: int, seed: int, extra: int, parallel: bool) -> Result:
    """One forward and backward on the shares of ``ranks``."""
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


def _compare(whole: Result, shares: list[Result], tolerance: float) -> None:
    value, encoder, own = whole
    expected = torch.cat([gradient.flatten() for gradient in encoder])
    for rank, (found_value, found_encoder, found_own) in enumerate(shares):
        found = torch.cat([gradient.flatten() for gradient in found_encoder])
        error = (found - expected).abs().max().item()
        if not error <= tolerance * (1 + expected.abs().max().item()):
            ratio = (found @ expected / (expected @ expected)).item()
            rest = ((found - ratio * expected).norm() / expected.norm()).item()
            kind = f"it is {ratio:.4g} times the right one" if rest < 1e-6 else "its direction is wrong too"
            raise AssertionError(
                f"on {len(shares)} processes the encoder's gradient differs from that of one process by {error:.2e}; "
                f"{kind}"
            )
        if not abs(found_value - value) <= tolerance * (1 + abs(value)):
            raise AssertionError(f"process {rank} reports the value {found_value:.8g}; one process has {value:.8g}")
        for place, (mine, one) in enumerate(zip(found_own, own, strict=True)):
            if (mine is None) != (one is None) or (
                mine is not None and one is not None and (mine - one).abs().max() > tolerance * (1 + one.abs().max())
            ):
                raise AssertionError(
                    f"process {rank}: gradient of the objective's parameter {place} is {mine}, not {one}"
                )
