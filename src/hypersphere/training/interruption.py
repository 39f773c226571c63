"""Ctrl-C and SIGTERM: the step under way is finished and saved before the run ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerCallback

from hypersphere.training.seeding import rank

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ONE_PRESS = 1.0  # seconds within which two signals count as one: a terminal and a launcher may both deliver it


class Interrupted(KeyboardInterrupt):
    """A signal stopped the run; ``signal`` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.signal = number


class Interruption(TrainerCallback):
    """Inside the context, the first signal ends the run after the current step is saved; the second ends it at once.

    Outside the steps (while a run is prepared, evaluated at step 0, or finished) there is nothing to save, so the first
    signal ends the run at once. An error caused by the signal, such as a broken import, counts as the interruption.
    Several processes agree after every step, so that all of them save or none.
    Ignored signals, such as those of a background job, stay ignored. Outside the main thread Python allows no handler,
    so nothing changes there.
    """

    def __init__(self) -> None:
        self.heard = 0  # the number of the first signal
        self._when = 0.0
        self._stepping = False
        self._ending = 0  # the signal that all processes have agreed to end by
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.heard and isinstance(error, Exception) and (not self._stepping or _disconnected(error)):
            raise Interrupted(self.heard) from error

    def _hear(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.heard:
            self.heard, self._when = number, now
            if self._stepping:
                self._announce()
                return
        elif now - self._when < ONE_PRESS:
            return
        raise Interrupted(number)

    def _announce(self) -> None:
        if rank() == 0:  # not print: the signal may have interrupted a print
            os.write(2, b"\nStopping: this step is finished and saved first; once more ends at once.\n")

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._stepping = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._ending = self._agreed(args.device)
        control.should_save = control.should_save or bool(self._ending)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._ending:
            raise Interrupted(self._ending)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._stepping = False

    def _agreed(self, device: torch.device) -> int:
        """The signal that any of the processes received; 0: none."""
        if _processes() == 1:
            return self.heard
        heard = torch.tensor(self.heard, device=device)
        dist.all_reduce(heard, op=dist.ReduceOp.MAX)
        return int(heard)


def _disconnected(error: Exception) -> bool:
    """Whether the error may be a lost connection. A process that ends at once closes the connection of the others, so
    they were interrupted too."""
    return _processes() > 1 and (type(error) is RuntimeError or isinstance(error, dist.DistError))


def _processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
