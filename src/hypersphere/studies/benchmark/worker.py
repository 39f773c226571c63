"""One cell, measured in a process of its own: ``Worker`` starts it and requests each turn on its standard input.

The process (from ``loss_of`` on) answers in lines of JSON: first that it is ready, then for every turn the seconds of
one forward and backward and, the first time, its peak memory above the inputs. It runs under any Python that has
hypersphere and the measured library.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import IO, Any

import torch
from torch import Tensor

from hypersphere import streaming
from hypersphere.objectives.files import blame
from hypersphere.objectives.registry import import_file
from hypersphere.studies.benchmark.cases import LIMIT, OURS, PLAIN, as_loss, find_case, inputs, step
from hypersphere.studies.benchmark.limits import blocked, whole, work
from hypersphere.studies.benchmark.measures import allow, peak_above
from hypersphere.studies.benchmark.peers import Loss, peer_loss

STARTING = 300.0  # seconds in which a worker must be ready
SHORT = 0.05  # seconds a turn lasts at least, in steps
WHOLE_ELEMENTS = 2**28  # of an N×N matrix that the limit may keep whole
Action = Callable[[], object]


@dataclass(frozen=True)
class Job:
    """One cell: case, contestant and size; ``max_bytes`` above the inputs are allowed. ``imports``: files that
    register objectives."""

    objective: str
    by: str
    size: int
    dim: int
    threads: int
    max_bytes: int
    imports: tuple[str, ...] = ()


class Worker:
    """A process that measures one cell. Answers are mappings: "seconds" and "bytes", or "over", or "failed"."""

    def __init__(self, job: Job, python: str = sys.executable) -> None:
        self.job = job
        environment = dict(os.environ)
        if python != sys.executable:  # another environment finds its own packages
            environment.pop("PYTHONPATH", None)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the worker
        self._process = subprocess.Popen(
            [python, "-m", "hypersphere.studies.benchmark.worker", json.dumps(asdict(job))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            text=True,
            start_new_session=True,  # Ctrl-C goes to the parent, which ends its workers itself
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def ready(self) -> dict[str, Any]:
        """Waits until the inputs are in place."""
        return self._answer(STARTING)

    def turn(self, timeout: float) -> dict[str, Any]:
        """One turn, for which the worker has ``timeout`` seconds."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("turn\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return self._ended()
        return self._answer(timeout)

    def _answer(self, timeout: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            return {"over": "time"}
        if line is None:
            return self._ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> dict[str, Any]:
        """The outcome of a process that ended without an answer."""
        if self._process.wait() == -9:  # the kernel sends SIGKILL when memory runs out
            return {"over": "memory"}
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return {"failed": lines[-1] if lines else f"its process ended with code {self._process.returncode}"}

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):  # a request that no process will read
                stream.close()
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def peak_bytes(label: str, by: str, size: int, dim: int, threads: int, max_bytes: int = 2**62) -> int | None:
    """Peak memory of one forward and backward above its inputs; None if it ran out of memory."""
    with Worker(Job(label, by, size, dim, threads, max_bytes)) as worker:
        answer = worker.ready()
        if "ready" in answer:
            answer = worker.turn(timeout=threading.TIMEOUT_MAX)
    if "failed" in answer:
        raise RuntimeError(f"measuring {label} by {by} at N = {size} failed: {answer['failed']}")
    return answer.get("bytes")


def loss_of(label: str, by: str, dim: int) -> Loss:
    """The case's loss as ``by`` computes it."""
    if by not in (OURS, PLAIN):
        return peer_loss(by, label)
    case = find_case(label)
    objective = case.create(dim)
    plain = case.plain
    if by == OURS:
        return as_loss(objective)
    if plain is None:
        raise ValueError(f"{label} has no plain form")

    def of_views(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        return plain(objective, z1, z2, labels)

    return of_views


def products(label: str, size: int, dim: int) -> list[Action]:
    """The bare matrix products in blocks, and whole if memory allows; the faster one is the limit."""
    needed = work(find_case(label).create(dim), dim)
    roomy = size * size <= WHOLE_ELEMENTS
    return [blocked(needed, size, dim), *([whole(needed, size, dim)] if roomy else [])]


def prepared(label: str, by: str, size: int, dim: int) -> list[Action]:
    """The actions to time, with their inputs in place and warm; the fastest of several counts."""
    if by == LIMIT:
        return products(label, size, dim)
    loss = loss_of(label, by, dim)
    few = inputs(64, dim)
    _same_value(by, loss(*few), loss_of(label, OURS, dim)(*few))
    step(loss, *few)  # so that loading at first use is not counted
    with streaming(32):
        step(loss, *few)
    many = inputs(size, dim)
    return [partial(step, loss, *many)]


def _same_value(by: str, theirs: Tensor, ours: Tensor) -> None:
    """Checks that the contestant computes the same value; another version of a peer may not."""
    if not torch.isclose(theirs, ours, rtol=1e-2, atol=1e-3):
        raise ValueError(f"{by} finds {theirs.item():.5g} where hypersphere finds {ours.item():.5g}")


def seconds_of(action: Action) -> float:
    """Seconds of one step: the fastest of the steps taken until ``SHORT`` seconds have passed."""
    taken: list[float] = []
    while sum(taken) < SHORT:
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return min(taken)


def first_turn(actions: list[Action], by: str) -> dict[str, Any]:
    """A single step, to measure its memory. It is timed too, since a slow cell takes no other step."""
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
    os.dup2(2, 1)  # output of a peer must not mix with the answers

    def answer(content: Mapping[str, Any]) -> None:
        print(json.dumps(content), file=channel, flush=True)

    serve(json.loads(sys.argv[1]), sys.stdin, answer)


if __name__ == "__main__":
    main()
