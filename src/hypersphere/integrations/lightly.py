"""Objectives where lightly expects a loss: two views, ``gather_distributed``, and a memory bank."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import normalize

from hypersphere.engine.distributed import world_size
from hypersphere.objectives import create_objective, list_presets

PRESET = "lightly"


class Loss(nn.Module):
    """An objective that is called as lightly's losses are, with lightly's default settings where it has the objective.

    gather_distributed: contrast with the rows of all processes.
    memory_bank_size: (rows, features) of a queue of former second views, which then are the only negatives of the first
        view, as in MoCo; 0: the batch. With a queue "infonce" is lightly's NTXentLoss. The queue begins with random
        unit rows, is filled while gradients are computed, and is not saved.
    settings: those of the objective.

    >>> loss = Loss("ntxent", temperature=0.5)
    >>> rows = torch.eye(4)
    >>> round(loss(rows, rows).item(), 6)
    0.594438
    """

    bank: Tensor
    bank_ptr: Tensor

    def __init__(
        self,
        objective: str = "ntxent",
        *,
        gather_distributed: bool = False,
        memory_bank_size: tuple[int, int] | int = 0,
        **settings: Any,
    ) -> None:
        super().__init__()
        preset = PRESET if (PRESET, objective) in list_presets() else None
        # Rows of a queue have no gradient, so each process may treat its own anchors alone.
        gather = gather_distributed and not memory_bank_size
        self.objective = create_objective(objective, preset=preset, gather=gather, **settings)
        self.gather_distributed = gather_distributed
        size = (memory_bank_size, 0) if isinstance(memory_bank_size, int) else tuple(memory_bank_size)
        if len(size) != 2 or min(size) < 0 or (size[0] > 0) != (size[1] > 0):
            raise ValueError(f"memory_bank_size must be 0 or (rows, features), not {memory_bank_size!r}")
        if size[0] and getattr(self.objective, "anchors", None) != "first":
            raise ValueError(f"a memory bank needs an objective whose anchors are the first view, not {objective}")
        rows = torch.randn(size, generator=torch.Generator().manual_seed(0))  # the same on every process
        self.register_buffer("bank", normalize(rows, dim=1), persistent=False)
        self.register_buffer("bank_ptr", torch.zeros((), dtype=torch.long), persistent=False)

    def forward(self, z0: Tensor, z1: Tensor) -> Tensor:
        if not len(self.bank):
            value: Tensor = self.objective(z0, z1)
            return value
        queue = self.bank.to(z0).clone()
        value = self.objective(z0, z1, negatives=queue, in_batch=False)
        if z0.requires_grad:
            self._enqueue(normalize(z1.detach(), dim=1))
        return value

    def _enqueue(self, rows: Tensor) -> None:
        """Replaces the oldest rows by those of all processes; what passes the end of the queue is dropped."""
        if world_size(self.gather_distributed) > 1:
            everyone = [torch.empty_like(rows) for _ in range(world_size(True))]
            dist.all_gather(everyone, rows.contiguous())
            rows = torch.cat(everyone)
        start = int(self.bank_ptr)
        rows = rows[: len(self.bank) - start]
        self.bank[start : start + len(rows)] = rows.to(self.bank)
        self.bank_ptr.fill_((start + len(rows)) % len(self.bank))
