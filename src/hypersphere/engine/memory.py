"""Memory that is kept for the next call: a system hands out fresh memory page by page, which takes longer than
filling it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

BLOCK = "block"
KEPT_BYTES = {BLOCK: 2**26}  # the most that is kept for a purpose; for a view's rows:
KEPT_ROWS_BYTES = 2**25
_kept: dict[str, Tensor] = {}

Lend = Callable[[str, Tensor, int], Tensor]


@contextmanager
def kept_memory() -> Iterator[Lend]:
    """Lends memory for a purpose, of a tensor's type and for so many numbers, with anything in it. Who needs none lets
    go of what was kept: it is for other memory to be there."""
    lent: dict[str, Tensor] = {}

    def lend(purpose: str, like: Tensor, elements: int) -> Tensor:
        memory = _take(purpose, like, elements)
        lent[purpose] = like.new_empty(elements) if memory is None else memory
        return lent[purpose][:elements]

    yield lend
    for purpose, memory in lent.items():
        few = memory.nbytes <= KEPT_BYTES.get(purpose, KEPT_ROWS_BYTES)
        if memory.numel() and few and memory.is_cpu and not memory.is_inference():
            _kept[purpose] = memory


def _take(purpose: str, like: Tensor, elements: int) -> Tensor | None:
    """What was kept, if it will do and no tensor or array holds on to it (one that has the bare storage alone is not
    seen). It is not kept any longer in any case."""
    memory = _kept.pop(purpose, None)  # nothing if another thread was quicker
    if memory is None or not like.is_cpu or memory.dtype != like.dtype or not 0 < elements <= memory.numel():
        return None
    return memory if _has_one_holder(memory) else None


def _has_one_holder(memory: Tensor) -> bool:
    """False also where torch cannot say."""
    count = getattr(torch._C, "_storage_Use_Count", lambda _: 0)
    storage = memory.untyped_storage()  # holds it too
    return bool(count(storage._cdata) == 2)
