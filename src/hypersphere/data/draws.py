"""Reproducible random draws that leave other generators as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seeds torch inside the block, on the CPU and on ``device``, and restores the generators' states afterwards.

    >>> before = torch.get_rng_state()
    >>> with seeded(3):
    ...     first = torch.rand(2)
    >>> with seeded(3):
    ...     second = torch.rand(2)
    >>> torch.equal(first, second), torch.equal(before, torch.get_rng_state())
    (True, True)
    """
    cuda = torch.device(device).type == "cuda"
    with torch.random.fork_rng(devices=[torch.device(device)] if cuda else []):
        torch.default_generator.manual_seed(seed)
        if cuda:
            torch.cuda.manual_seed(seed)
        yield
