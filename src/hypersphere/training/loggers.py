"""The loggers a run reports to: those requested or configured, if they are installed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers.integrations.integration_utils import TensorBoardCallback

# Logger: the package it needs, and the environment variables with which its users configure it.
LOGGERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tensorboard": ("tensorboard", ()),
    "wandb": ("wandb", ("WANDB_API_KEY", "WANDB_PROJECT", "WANDB_MODE")),
    "mlflow": ("mlflow", ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME")),
}


def report_to(asked: Sequence[str] = ("tensorboard",)) -> tuple[list[str], list[str]]:
    """The Trainer's ``report_to``, and a sentence for each logger that was requested and is not installed.

    TensorBoard needs no account and writes into the run's folder. W&B and MLflow send data elsewhere: they are used if
    requested, or if their environment variables are set, and never merely because they are installed.

    >>> report_to([])[1]
    []
    """
    unknown = [name for name in asked if name not in LOGGERS]
    if unknown:
        raise ValueError(f"there is no logger {unknown[0]!r}, only {', '.join(LOGGERS)}")
    chosen, missing = [], []
    for name, (package, variables) in LOGGERS.items():
        if name in asked and not installed(name):
            missing.append(f"{name} was requested but is not installed (pip install {package}); the run goes on.")
        elif installed(name) and (name in asked or _configured(name, variables)):
            chosen.append(name)
    return chosen, missing


def installed(name: str) -> bool:
    """Whether a logger's package is installed; it is not imported."""
    return find_spec(LOGGERS[name][0]) is not None


def _configured(name: str, variables: Sequence[str]) -> bool:
    if name == "wandb" and os.environ.get("WANDB_MODE", "").lower() == "disabled":
        return False
    return any(os.environ.get(variable) for variable in variables)


def guard_tensorboard(trainer: Any, folder: Path, echo: Callable[[str], None]) -> None:
    """If the trainer reports to TensorBoard, it writes into ``folder``, and a failed write does not end the run."""
    for callback in list(trainer.callback_handler.callbacks):
        if isinstance(callback, TensorBoardCallback):
            trainer.remove_callback(callback)
            trainer.add_callback(TensorBoard(folder, echo))


class TensorBoard(TensorBoardCallback):
    """transformers' callback, switched off at the first OSError. The writing thread passes its errors on."""

    def __init__(self, folder: Path, echo: Callable[[str], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.logging_dir, self.echo, self.failed = str(folder), echo, False
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
            self.echo(f"TensorBoard's file in {self.logging_dir} cannot be written ({error}); the run goes on without.")

    def _in_thread(self, failure: Any) -> None:
        """Suppresses the traceback of TensorBoard's thread: the next ``on_log`` reports the error in a sentence."""
        ours = type(failure.thread).__module__.partition(".")[0] == "tensorboard"
        if not (ours and isinstance(failure.exc_value, OSError)):
            self._before(failure)
