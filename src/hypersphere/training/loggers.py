"""Which loggers a run reports to: those that were asked for or are configured, if they are installed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec

# Logger: the package it needs, and the environment variables by which its users say that they want it.
LOGGERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tensorboard": ("tensorboard", ()),
    "wandb": ("wandb", ("WANDB_API_KEY", "WANDB_PROJECT", "WANDB_MODE")),
    "mlflow": ("mlflow", ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME")),
}


def report_to(asked: Sequence[str] = ("tensorboard",)) -> tuple[list[str], list[str]]:
    """The Trainer's ``report_to``, and a sentence for each logger that was asked for and is not installed.

    TensorBoard needs no account and writes into the run's folder. W&B and MLflow send data elsewhere: they are used if
    asked for, or if their environment variables are set, and never merely because they are installed.

    >>> report_to([])[1]
    []
    """
    unknown = [name for name in asked if name not in LOGGERS]
    if unknown:
        raise ValueError(f"there is no logger {unknown[0]!r}, only {', '.join(LOGGERS)}")
    chosen, missing = [], []
    for name, (package, variables) in LOGGERS.items():
        if name in asked and not installed(name):
            missing.append(f"{name} was asked for but is not installed (pip install {package}); the run goes on.")
        elif installed(name) and (name in asked or _configured(name, variables)):
            chosen.append(name)
    return chosen, missing


def installed(name: str) -> bool:
    """Whether a logger's package is there; it is not imported."""
    return find_spec(LOGGERS[name][0]) is not None


def _configured(name: str, variables: Sequence[str]) -> bool:
    if name == "wandb" and os.environ.get("WANDB_MODE", "").lower() == "disabled":
        return False
    return any(os.environ.get(variable) for variable in variables)
