"""The random numbers of a run: the seed of each process, and measuring without advancing the generators."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


def rank() -> int:
    """This process's rank among those the launcher started; rank 0 writes and prints."""
    return int(os.environ.get("RANK", "0"))


def processes() -> int:
    """How many processes the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def seed_run(seed: int) -> None:
    """Seeds every process alike, so that all draw the same weights."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)  # seeds all devices


def seed_process(seed: int) -> None:
    """Seeds each process differently, so that each draws its own views."""
    seed_run((seed + rank()) % 2**32)


def drawn_order(count: int, seed: int) -> list[int]:
    """The numbers below ``count`` in an order that depends only on the seed, not on earlier draws.

    >>> sorted(drawn_order(4, seed=7)), drawn_order(4, seed=7) == drawn_order(4, seed=7)
    ([0, 1, 2, 3], True)
    """
    order: list[int] = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return order


@contextmanager
def preserve_state(modules: Sequence[nn.Module], seed: int = 0) -> Iterator[None]:
    """Inside, no gradient is recorded and random numbers start from ``seed``. Afterwards random states, the modules'
    modes and their buffers (batch norm's statistics) are restored."""
    modes = [(module, module.training) for each in modules for module in each.modules()]
    buffers = [
        (module, name, value, value.detach().clone())
        for each in modules
        for module in each.modules()
        for name, value in module._buffers.items()
        if value is not None
    ]
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        seed_run(seed)
        with torch.no_grad():
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        if devices:
            torch.cuda.set_rng_state_all(devices)
        with torch.no_grad():
            for module, name, value, kept in buffers:
                value.copy_(kept)
                module._buffers[name] = value
        for module, mode in modes:
            module.training = mode
