"""Objectives, metrics and the monitor in the trainers of others: one file for each library, loaded at its first use.

hs.integrations.sentence_transformers.Loss(model, "dhel", temperature=0.1)
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

# The module, and what to install for it; nothing for those that only share a library's call form.
LIBRARIES: dict[str, str] = {
    "info_nce": "",
    "lightly": "",
    "open_clip": "",
    "pytorch_metric_learning": "pytorch-metric-learning",
    "stable_pretraining": "",
    "sup_contrast": "",
}


def __getattr__(name: str) -> ModuleType:
    if name not in LIBRARIES:
        raise AttributeError(f"hypersphere.integrations has no {name!r}; it has {', '.join(LIBRARIES)}")
    try:
        return import_module(f"hypersphere.integrations.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hypersphere"):
            raise
        raise ModuleNotFoundError(
            f"hypersphere.integrations.{name} needs {error.name}: pip install '{LIBRARIES[name]}'", name=error.name
        ) from None


def __dir__() -> list[str]:
    return sorted(LIBRARIES)
