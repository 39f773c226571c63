"""One cell, measured in a process of its own: started by ``process``, told on its standard input to take a turn.

It answers in lines of JSON: first that it is ready, then for every turn the seconds of one forward and backward and,
the first time, its peak memory above the inputs. Runs under any Python that has hypersphere and what it measures.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import IO, Any

import torch
from torch import Tensor

from hypersphere import streaming
from hypersphere.objectives.files import blame
from hypersphere.objectives.registry import import_file
from hypersphere.studies.benchmark.cases import LIMIT, OURS, PLAIN, find_case, inputs, step
from hypersphere.studies.benchmark.limits import blocked, whole, work
from hypersphere.studies.benchmark.memory import allow, peak_above
from hypersphere.studies.benchmark.peers import Loss, peer_loss

SHORT = 0.05  # seconds a turn lasts at least, in steps
WHOLE_ELEMENTS = 2**28  # of an N×N matrix that the limit may keep whole
Action = Callable[[], object]


def loss_of(label: str, by: str, dim: int) -> Loss:
    """The case's loss as ``by`` computes it."""
    if by not in (OURS, PLAIN):
        return peer_loss(by, label)
    case = find_case(label)
    objective = case.create(dim)
    plain = case.plain
    if by == OURS:
        return objective
    if plain is None:
        raise ValueError(f"{label} has no plain form")

    def of_views(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        return plain(objective, z1, z2, labels)

    return of_views


def products(label: str, size: int, dim: int) -> list[Action]:
    """The bare matrix products in blocks, and whole where there is room: whichever is faster is the limit."""
    needed = work(find_case(label).create(dim), dim)
    roomy = size * size <= WHOLE_ELEMENTS
    return [blocked(needed, size, dim), *([whole(needed, size, dim)] if roomy else [])]


def prepared(label: str, by: str, size: int, dim: int) -> list[Action]:
    """What is to be timed, with its inputs in place and warm; of several the fastest counts."""
    if by == LIMIT:
        return products(label, size, dim)
    loss = loss_of(label, by, dim)
    few = inputs(64, dim)
    _same_value(by, loss(*few), loss_of(label, OURS, dim)(*few))
    step(loss, *few)  # so that what is loaded at first use is not counted
    with streaming(32):
        step(loss, *few)
    many = inputs(size, dim)
    return [partial(step, loss, *many)]


def _same_value(by: str, theirs: Tensor, ours: Tensor) -> None:
    """Only what computes the same is compared; another version of a peer may not."""
    if not torch.isclose(theirs, ours, rtol=1e-2, atol=1e-3):
        raise ValueError(f"{by} finds {theirs.item():.5g} where hypersphere finds {ours.item():.5g}")


def seconds_of(action: Action) -> float:
    """Seconds of one step: the fastest of as many as fit into a short while."""
    taken: list[float] = []
    while sum(taken) < SHORT:
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return min(taken)


def first_turn(actions: list[Action], by: str) -> dict[str, Any]:
    """A single step, for its memory; it is timed as well, since of a slow cell it is all there will be."""
    if by == LIMIT:
        return {"seconds": min(seconds_of(action) for action in actions), "bytes": None}
    taken: list[float] = []

    def once() -> None:
        began = time.perf_counter()
        actions[0]()
        taken.append(time.perf_counter() - began)

    peak = peak_above(once)
    return {"seconds": taken[0], "bytes": peak}


def out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(
        word in str(error) for word in ("allocate memory", "not enough memory", "out of memory")
    )


def versions(by: str) -> str:
    own = f"torch {torch.__version__}"
    return own if by in (OURS, PLAIN, LIMIT) else f"{version(by)} with {own}"


def serve(job: Mapping[str, Any], requests: IO[str], answer: Callable[[Mapping[str, Any]], None]) -> None:
    """Answers until the requests end."""
    label, by = job["objective"], job["by"]
    torch.set_num_threads(job["threads"])
    try:
        for path in job.get("imports", ()):
            import_file(path)
        actions = prepared(label, by, job["size"], job["dim"])
        allow(job["max_bytes"])
        answer({"ready": True, "version": versions(by)})
        first = True
        for _ in requests:
            answer(first_turn(actions, by) if first else {"seconds": min(map(seconds_of, actions))})
            first = False
    except Exception as error:
        allow(2**62)
        if out_of_memory(error):
            answer({"over": "memory"})
        else:
            answer({"failed": blame(error) or f"{type(error).__name__}: {error}".splitlines()[0]})


def main() -> None:
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints is no answer

    def answer(found: Mapping[str, Any]) -> None:
        print(json.dumps(found), file=channel, flush=True)

    serve(json.loads(sys.argv[1]), sys.stdin, answer)


if __name__ == "__main__":
    main()
