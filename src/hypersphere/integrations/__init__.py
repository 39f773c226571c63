"""Objectives, metrics and the monitor in the trainers of others: one file for each library, loaded at its first use.

hs.integrations.sentence_transformers.Loss(model, "dhel", temperature=0.1)
"""

from __future__ import annotations

import re
from importlib import import_module, metadata
from types import ModuleType

# The module, and what to install for it; nothing for those that only share a library's call form.
LIBRARIES: dict[str, str] = {
    "info_nce": "",
    "lightly": "",
    "lightning": "lightning>=2.0",
    "open_clip": "",
    "pytorch_metric_learning": "pytorch-metric-learning>=1.7",
    "sentence_transformers": "hypersphere-lab[text]",
    "stable_pretraining": "",
    "sup_contrast": "",
    "torchmetrics": "torchmetrics>=1.5",
    "transformers": "transformers>=5.0",
}


def __getattr__(name: str) -> ModuleType:
    if name not in LIBRARIES:
        raise AttributeError(f"hypersphere.integrations has no {name!r}; it has {', '.join(LIBRARIES)}")
    try:
        return import_module(f"hypersphere.integrations.{name}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "hypersphere":
            raise
        raise ModuleNotFoundError(
            f"hypersphere.integrations.{name} needs {missing}: pip install '{LIBRARIES[name]}'", name=error.name
        ) from None


def __dir__() -> list[str]:
    return sorted(LIBRARIES)


def refuse_old(module: str, *distributions: str) -> None:
    """Raises if one of these distributions is installed in a version below the one that ``LIBRARIES`` names."""
    needed = LIBRARIES[module]
    for distribution in distributions:
        try:
            installed = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
        if _numbers(installed) < _numbers(needed.partition(">=")[2]):
            raise ImportError(
                f"hypersphere.integrations.{module} needs {needed}, and {distribution} {installed} is installed: "
                f"pip install -U '{needed}'"
            )


def _numbers(version: str) -> tuple[int, ...]:
    """The leading whole numbers of a version.

    >>> _numbers("2.10.0rc1") > _numbers("2.6")
    True
    """
    return tuple(int(each) for each in re.match(r"\d+(?:\.\d+)*", version)[0].split("."))  # type: ignore[index]
