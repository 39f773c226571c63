"""Real processes joined by gloo, started once and used by many checks."""

from __future__ import annotations

import atexit
import os
import pickle
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from hypersphere import processes
from hypersphere.engine import distributed
from hypersphere.objectives import files

GRACE = 5.0  # seconds for the others to fail too, or to be found waiting, once a process has failed


class Workers:
    """A group of ``world_size`` processes; each runs the functions it receives, with the group initialised."""

    def __init__(self, world_size: int) -> None:
        if world_size < 1:
            raise ValueError(f"a group has at least one process, not {world_size}")
        self.world_size = world_size
        self._folder = tempfile.TemporaryDirectory(prefix="hypersphere-workers-")
        processes.preload(__name__, "torch._dynamo")  # which DDP imports
        meeting = str(Path(self._folder.name) / "meeting")
        self._lines: list[Connection] = []
        self._processes: list[BaseProcess] = []
        for rank in range(world_size):
            ours, theirs = Pipe()
            self._processes.append(processes.start(_serve, rank, world_size, meeting, theirs, daemon=True))
            theirs.close()
            self._lines.append(ours)
        self._met = False

    def run(self, function: Callable[..., Any], *args: Any, timeout: float = 60.0) -> list[Any]:
        """``function(*args)`` on every process; results by rank. An error on any is raised here."""
        try:
            message = pickle.dumps((files.loaded(), pickle.dumps((function, args))))
        except Exception as error:
            raise ValueError(
                f"what runs on other processes must be picklable, so defined at the top of a module: {error}"
            ) from error
        if not self._met:
            self._meet()
        for line in self._lines:
            line.send_bytes(message)
        answers = self._answers(timeout, f"while it ran {getattr(function, '__name__', function)}; see its own output")
        silent = [rank for rank, answer in enumerate(answers) if answer is None]
        failed = [(rank, answer[1]) for rank, answer in enumerate(answers) if answer and not answer[0]]
        if silent:
            self.close()
        if failed:
            waits = f"\n(processes {silent} wait for them)" if silent else ""
            raise RuntimeError("\n".join(f"process {rank} failed:\n{text}" for rank, text in failed) + waits)
        if silent:
            raise TimeoutError(f"processes {silent} of {self.world_size} did not answer in time")
        return [answer[1] for answer in answers if answer]

    def _meet(self) -> None:
        """Waits until all have started; on a busy machine this takes longer than most checks."""
        when = "before it began; a script that starts processes needs its work under `if __name__ == '__main__':`, "
        started = self._answers(distributed.timeout().total_seconds(), when + "in a file")
        silent = [rank for rank, answer in enumerate(started) if answer is None]
        if silent:
            self.close()
            raise TimeoutError(f"processes {silent} of {self.world_size} did not start in time")
        self._met = True

    def _answers(self, timeout: float, when: str) -> list[tuple[bool, Any] | None]:
        """Results of the processes, by rank; None: a timeout, which is short once one of them has failed."""
        answers: dict[int, tuple[bool, Any]] = {}
        end = time.monotonic() + timeout
        while len(answers) < self.world_size:
            missing = {line: rank for rank, line in enumerate(self._lines) if rank not in answers}
            ready = wait(list(missing), max(0.0, end - time.monotonic()))
            for line, rank in missing.items():
                if line not in ready:
                    continue
                try:
                    answers[rank] = line.recv()
                except (EOFError, OSError):
                    self.close()
                    raise RuntimeError(f"process {rank} of {self.world_size} died {when}") from None
                if not answers[rank][0]:
                    end = min(end, time.monotonic() + GRACE)
            if not ready:
                break
        return [answers.get(rank) for rank in range(self.world_size)]

    def close(self) -> None:
        """Ends the processes."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(5)
        for line in self._lines:
            line.close()
        self._folder.cleanup()
        if _SHARED.get(self.world_size) is self:
            del _SHARED[self.world_size]


_SHARED: dict[int, Workers] = {}


def workers(world_size: int) -> Workers:
    """The group of this size that all checks share; it ends with this process."""
    if world_size not in _SHARED:
        _SHARED[world_size] = Workers(world_size)
        atexit.register(_SHARED[world_size].close)
    return _SHARED[world_size]


def _serve(rank: int, world_size: int, meeting: str, line: Connection) -> None:
    torch.set_num_threads(1)
    if os.path.exists("/sys/class/net/lo"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    meeting = f"file://{meeting}"
    dist.init_process_group("gloo", meeting, distributed.timeout(), rank=rank, world_size=world_size)
    line.send((True, None))
    while True:
        try:
            message = line.recv_bytes()
        except EOFError:
            return
        try:
            own, message = pickle.loads(message)  # from the parent process only, over its own pipe
            for path, module in own:
                files.load(path, module)
            function, args = pickle.loads(message)
            answer = (True, function(*args))
        except Exception:
            answer = (False, traceback.format_exc())
        line.send(answer)
