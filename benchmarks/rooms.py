"""How many files a batch goes through: the measure of what a reader must know to follow it.

A room is a module of hypersphere of which some function is entered while one loss of two views is computed and
differentiated. Three numbers count them:

    all       every room
    handed    those that are handed a tensor, or an object of the engine
    returns   how often a call leaves the room of the latest call for one that was entered before

    python -m benchmarks.rooms [OBJECTIVE ...]

A batch of 64 rows of 16 numbers is computed densely, and in two blocks of 32.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

import torch
from torch import Tensor

import hypersphere as hs

DEFAULT = ("met", "infonce", "siglip", "align_uniform")
ROWS, DIM, BLOCK = 64, 16, 32


def entered(name: str, path: AbstractContextManager[None]) -> tuple[list[str], set[str]]:
    """The rooms in the order in which calls enter them, and those that were handed a part of the batch."""
    objective = hs.create_objective(name)
    generator = torch.Generator().manual_seed(0)
    z1, z2 = (torch.randn(ROWS, DIM, generator=generator, requires_grad=True) for _ in range(2))
    rooms: list[str] = []
    handed: set[str] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        room = frame.f_globals.get("__name__", "")
        if event != "call" or not room.startswith("hypersphere."):
            return
        rooms.append(room.removeprefix("hypersphere."))
        code = frame.f_code
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(holds_rows(frame.f_locals.get(each)) for each in arguments):
            handed.add(rooms[-1])

    with path:
        objective(z1, z2).backward()  # what a first call does once for all
        sys.setprofile(watch)
        try:
            objective(z1, z2).backward()
        finally:
            sys.setprofile(None)
    return rooms, handed


def holds_rows(value: Any) -> bool:
    """Whether it is a part of the batch: a tensor, an object of the engine, or a collection of such."""
    if isinstance(value, (list, tuple)):
        return any(holds_rows(each) for each in value)
    if isinstance(value, Mapping):
        return any(holds_rows(each) for each in value.values())
    return isinstance(value, Tensor) or type(value).__module__.startswith("hypersphere.engine")


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':16}{'':10}{'all':>8}{'handed':>8}{'returns':>8}   handed, in order")
    for name in sys.argv[1:] or DEFAULT:
        for label, path in (("dense", nullcontext()), ("streamed", hs.streaming(BLOCK))):
            calls, handed = entered(name, path)
            changes = [room for room, before in zip(calls, ["", *calls], strict=False) if room != before]
            order = list(dict.fromkeys(calls))
            print(
                f"{name:16}{label:10}{len(order):8}{len(handed):8}{len(changes) - len(order):8}   "
                + ", ".join(room for room in order if room in handed)
            )


if __name__ == "__main__":
    main()
