"""Real processes joined by gloo, started once and used by many checks."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


class Workers:
    """A group of ``world_size`` processes; each runs what it is sent, with the group initialised."""

    def __init__(self, world_size: int) -> None:
        if world_size < 1:
            raise ValueError(f"a group has at least one process, not {world_size}")
        self.world_size = world_size
        self._folder = tempfile.TemporaryDirectory(prefix="hypersphere-workers-")
        spawn = multiprocessing.get_context("spawn")
        meeting = str(Path(self._folder.name) / "meeting")
        self._lines: list[Connection] = []
        self._processes = []
        for rank in range(world_size):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_serve, args=(rank, world_size, meeting, theirs), daemon=True)
            process.start()
            theirs.close()
            self._lines.append(ours)
            self._processes.append(process)

    def run(self, function: Callable[..., Any], *args: Any, timeout: float = 60.0) -> list[Any]:
        """``function(*args)`` on every process; results by rank. An error on any is raised here."""
        try:
            message = pickle.dumps((function, args))
        except Exception as error:
            raise ValueError(
                f"what runs on other processes must be picklable, so defined at the top of a module: {error}"
            ) from error
        for line in self._lines:
            line.send_bytes(message)
        answers: list[tuple[bool, Any] | None] = []
        for rank, line in enumerate(self._lines):
            try:
                answers.append(line.recv() if line.poll(timeout) else None)
            except (EOFError, OSError):
                self.close()
                raise RuntimeError(
                    f"process {rank} of {self.world_size} died; a script that starts processes needs its work under "
                    "`if __name__ == '__main__':`, in a file"
                ) from None
            timeout = timeout if answers[-1] else 1.0  # the others have had their time
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

    def close(self) -> None:
        """Ends the processes."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(5)
        for line in self._lines:
            line.close()
        self._folder.cleanup()
        workers.cache_clear()


@cache
def workers(world_size: int) -> Workers:
    """The group of this size that all checks share; it ends with this process."""
    group = Workers(world_size)
    atexit.register(group.close)
    return group


def _serve(rank: int, world_size: int, meeting: str, line: Connection) -> None:
    torch.set_num_threads(1)
    if os.path.exists("/sys/class/net/lo"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
    while True:
        try:
            message = line.recv_bytes()
        except EOFError:
            return
        try:
            function, args = pickle.loads(message)  # from the parent process only, over its own pipe
            answer = (True, function(*args))
        except Exception:
            answer = (False, traceback.format_exc())
        line.send(answer)
