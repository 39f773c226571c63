"""Any objective in the call form of lightly's losses, with its memory bank.

loss = hs.integrations.lightly.Loss("ntxent", temperature=0.1, memory_bank_size=(4096, 128))
loss(z0, z1).backward()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import normalize

from hypersphere.engine.distributed import Shard, exchange, gather_rows, own_rank, raise_on_all_ranks, world_size
from hypersphere.integrations.call_forms import create_as, require_positives


class Loss(nn.Module):
    """An objective called on two views, as NTXentLoss, DCLLoss, DCLWLoss, BarlowTwinsLoss and VICRegLoss are; its
    defaults are lightly's. Views (B, …, D) of several positions, as VICRegL has them, give the mean over the positions.

    memory_bank_size: (rows, dim), or rows: the dimensions are then those of the first batch. The rows of z0 are
        contrasted with this many keys of earlier batches instead of the batch, as in MoCo; "ntxent" is then
        ``infonce`` in one direction. The bank starts as random unit rows and keeps z1, as it is, of each call whose z0
        requires a gradient. As in lightly, a batch that does not fit before the bank's end is cut there and the next
        one begins at its start, and the bank is no part of the state_dict. 0: no bank.
    gather_distributed: contrast with the rows of all processes; a bank keeps the keys of all processes.
    """

    bank: Tensor

    def __init__(
        self,
        objective: str = "ntxent",
        *,
        memory_bank_size: int | Sequence[int] = 0,
        gather_distributed: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__()
        if gather_distributed and not distributed.is_available():
            raise ValueError("gather_distributed=True needs a torch with torch.distributed")
        self.bank_rows, dim = _bank_size(memory_bank_size)
        self.gather_distributed = gather_distributed
        if self.bank_rows and objective == "ntxent":
            objective = "infonce"
            settings.setdefault("temperature", 0.5)
        self.objective = create_as("lightly", objective, **{"gather": gather_distributed, **settings})
        if self.bank_rows and "negatives" not in self.objective.takes:
            raise ValueError(f"{objective} has no negatives: its memory_bank_size must be 0")
        self.next = 0  # the row of the bank that the next batch begins at
        self.register_buffer("bank", _random_rows(self.bank_rows, dim), persistent=False)

    def forward(self, z0: Tensor, z1: Tensor) -> Tensor:
        require_positives(z1, "z1")
        if not self.bank_rows:
            return self._over_positions(z0, z1)
        if isinstance(z1, Tensor) and z1.ndim == 2:
            if not self.bank.shape[1]:
                self.bank = _random_rows(self.bank_rows, z1.shape[1])
            self.bank = self.bank.to(z1.device, torch.promote_types(z1.dtype, torch.float32))
        gather = self.objective.gather
        with raise_on_all_ranks(gather, self.objective.described):
            shared = world_size(gather)
            rank = own_rank() if shared > 1 else 0
            own = self.bank[rank::shared]  # all processes hold the same bank: each one brings its part
            loss: Tensor = self.objective(z0, z1, negatives=own, in_batch=False)
            if z0.requires_grad:
                keys = z1.detach().to(self.bank)
                sizes = tuple(size for (size,) in exchange([len(keys)])) if shared > 1 else (len(keys),)
                self._keep(gather_rows(keys, Shard(sizes, rank)))
        return loss

    def _over_positions(self, z0: Tensor, z1: Tensor) -> Tensor:
        if not all(isinstance(z, Tensor) and z.ndim > 2 for z in (z0, z1)):
            loss: Tensor = self.objective(z0, z1)
            return loss
        if z0.shape != z1.shape or not z0.shape[1:-1].numel():
            raise ValueError(f"views of several positions must have one shape, not {(*z0.shape,)} and {(*z1.shape,)}")
        positions = zip(z0.flatten(1, -2).unbind(1), z1.flatten(1, -2).unbind(1), strict=True)
        return torch.stack([self.objective(*views) for views in positions]).mean()

    def _keep(self, keys: Tensor) -> None:
        end = min(self.next + len(keys), self.bank_rows)
        kept = keys[: end - self.next]
        self.bank = torch.cat([self.bank[: self.next], kept, self.bank[end:]])  # backward may need the old one
        self.next = end % self.bank_rows


def _bank_size(given: int | Sequence[int]) -> tuple[int, int]:
    """Rows and dimensions; 0 dimensions are unknown ones."""
    size = (given, 0) if isinstance(given, int) else given
    if (
        not isinstance(size, Sequence)
        or len(size) != 2
        or not all(isinstance(each, int) and each >= 0 for each in size)
    ):
        raise ValueError(f"memory_bank_size must be (rows, dim), a number of rows, or 0 for no bank, not {given!r}")
    return size[0], size[1]


def _random_rows(rows: int, dim: int) -> Tensor:
    """Unit rows, the same on every process."""
    generator = torch.Generator().manual_seed(0)
    return normalize(torch.randn(rows, dim, generator=generator))
