"""Which rows a batch holds: a new order every epoch, decided by the seed alone, shared among processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler


class Batches(Sampler[list[int]]):
    """Rows of every batch of an epoch; each process takes its consecutive share of each of them.

    However many processes there are, the batches are the same. An incomplete last batch is left out: its loss would
    have fewer negatives and its gradient another size.
    """

    def __init__(self, rows: int, size: int, seed: int, rank: int = 0, world: int = 1) -> None:
        if rows < size:
            raise ValueError(f"there are {rows} rows to train on, fewer than one batch of {size}; lower batch.size")
        if size < 2 * world:
            raise ValueError(f"a batch of {size} leaves {world} processes less than two instances each")
        self.rows, self.size, self.seed, self.rank, self.world = rows, size, seed, rank, world
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.rows // self.size

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(self.rows, generator=generator)
        for start in range(0, len(self) * self.size, self.size):
            share = torch.tensor_split(order[start : start + self.size], self.world)[self.rank]
            yield share.tolist()


class Loader(DataLoader[Any]):
    """A DataLoader over ``Batches`` that leaves torch's own random generator alone."""

    def __init__(self, data: Dataset[Any], batches: Batches, collate: Callable[[list[Any]], Any]) -> None:
        super().__init__(data, batch_sampler=batches, collate_fn=collate, generator=torch.Generator())
        self.batches = batches

    def set_epoch(self, epoch: int) -> None:
        self.batches.set_epoch(epoch)
