"""Workers in processes of their own, asked for one turn after another."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

STARTING = 300.0  # seconds in which a worker must be ready


@dataclass(frozen=True)
class Job:
    """One cell: a case, by whom, at which size; ``max_bytes`` above the inputs are allowed. ``imports``: files that
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
            start_new_session=True,  # Ctrl-C is for the parent, which ends its workers itself
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
        found: dict[str, Any] = json.loads(line)
        return found

    def _ended(self) -> dict[str, Any]:
        """What to make of a process that ended without an answer."""
        if self._process.wait() == -9:  # as the kernel does when memory runs out
            return {"over": "memory"}
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        return {"failed": said[-1] if said else f"its process ended with code {self._process.returncode}"}

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):  # a turn that nobody will take
                stream.close()
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def peak_bytes(label: str, by: str, size: int, dim: int, threads: int, max_bytes: int = 2**62) -> int | None:
    """Peak memory of one forward and backward above its inputs; None if it ran out of memory."""
    with Worker(Job(label, by, size, dim, threads, max_bytes)) as worker:
        found = worker.ready()
        if "ready" in found:
            found = worker.turn(timeout=threading.TIMEOUT_MAX)
    if "failed" in found:
        raise RuntimeError(f"measuring {label} by {by} at N = {size} failed: {found['failed']}")
    return found.get("bytes")
