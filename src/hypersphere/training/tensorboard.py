"""TensorBoard's file of a run: a disk that takes no more ends the logging, not the run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers.integrations.integration_utils import TensorBoardCallback


def guard_tensorboard(trainer: Any, folder: Path, say: Callable[[str], None]) -> None:
    """If the trainer reports to TensorBoard, it does so into ``folder`` and survives a file that cannot be written."""
    for callback in list(trainer.callback_handler.callbacks):
        if isinstance(callback, TensorBoardCallback):
            trainer.remove_callback(callback)
            trainer.add_callback(TensorBoard(folder, say))


class TensorBoard(TensorBoardCallback):
    """transformers' callback, until the first error of the system; the thread that writes passes it on."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.logging_dir, self.say, self.failed = str(folder), say, False
        self._before: Any = None

    def on_train_begin(self, *given: Any, **more: Any) -> None:
        if threading.excepthook != self._in_thread:
            self._before, threading.excepthook = threading.excepthook, self._in_thread
        self._try(super().on_train_begin, *given, **more)

    def on_log(self, *given: Any, **more: Any) -> None:
        self._try(super().on_log, *given, **more)

    def on_train_end(self, *given: Any, **more: Any) -> None:
        self._try(super().on_train_end, *given, **more)
        if threading.excepthook == self._in_thread:
            threading.excepthook = self._before

    def _try(self, call: Callable[..., Any], *given: Any, **more: Any) -> None:
        if self.failed:
            return
        try:
            call(*given, **more)
        except OSError as error:
            self.failed = True
            self.say(f"TensorBoard's file in {self.logging_dir} cannot be written ({error}); the run goes on without.")

    def _in_thread(self, failure: Any) -> None:
        """Prints no traceback of TensorBoard's thread: its error is said in a sentence at the next line of the log."""
        ours = type(failure.thread).__module__.partition(".")[0] == "tensorboard"
        if not (ours and isinstance(failure.exc_value, OSError)):
            self._before(failure)
