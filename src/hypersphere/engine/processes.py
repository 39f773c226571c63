"""Rows of all processes as one batch, without a collective in backward.

Every process holds a share of the batch, of any size. What follows uses torch.distributed's default group; without
one, or with ``gather=False``, the batch is the caller's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Share:
    """Which rows of the whole batch are this process's: ``sizes`` counts every process's rows."""

    sizes: tuple[int, ...]
    rank: int

    @property
    def start(self) -> int:
        return sum(self.sizes[: self.rank])

    @property
    def size(self) -> int:
        return self.sizes[self.rank]

    @property
    def total(self) -> int:
        return sum(self.sizes)

    def own(self, rows: Tensor) -> Tensor:
        """This process's part of rows that stand for the whole batch."""
        return rows[self.start : self.start + self.size]


def world_size(gather: bool) -> int:
    """How many processes share the batch."""
    return dist.get_world_size() if gather and dist.is_available() and dist.is_initialized() else 1


def exchange(numbers: list[int], device: torch.device) -> list[list[int]]:
    """Everybody's short list of whole numbers, by rank."""
    mine = torch.tensor(numbers, dtype=torch.int64, device=device)
    everybody = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everybody, mine)
    return [each.tolist() for each in everybody]


def agree_on_labels(labels: object, z1: object) -> None:
    """An error on all processes if some have labels and others have none."""
    device = z1.device if isinstance(z1, Tensor) else torch.device("cpu")
    given = [bool(each[0]) for each in exchange([int(labels is not None)], device)]
    if len(set(given)) > 1:
        raise ValueError(f"processes differ in the presence of labels: {given}")


def gather_rows(rows: Tensor, share: Share) -> Tensor:
    """The rows of all processes in rank order; shares may be uneven or empty."""
    if len(share.sizes) == 1:
        return rows
    longest = max(share.sizes)
    padded = rows.new_zeros(longest, *rows.shape[1:])
    padded[: len(rows)] = rows
    everybody = [torch.empty_like(padded) for _ in share.sizes]
    dist.all_gather(everybody, padded)
    return torch.cat([part[:size] for part, size in zip(everybody, share.sizes, strict=True)])


def sum_over_processes(tensors: list[Tensor], share: Share) -> None:
    """Adds up each tensor over all processes, in place."""
    if len(share.sizes) > 1:
        for tensor in tensors:
            dist.all_reduce(tensor)
