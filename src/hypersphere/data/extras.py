"""Libraries that an extra of the package installs, imported when they are used."""

from __future__ import annotations

import re
from importlib import import_module, metadata
from typing import Any

FLOORS = {"sentence_transformers": "6.0"}  # releases before these are imported without complaint and fail later


def need(module: str, extra: str, purpose: str) -> Any:
    """The imported module, or one sentence that names the extra it comes with.

    >>> need("math", "image", "counting").sqrt(4.0)
    2.0
    """
    _check_floor(module.partition(".")[0], extra, purpose)
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not (error.name and module.startswith(error.name)):  # the module exists and lacks a dependency of its own
            raise
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"{purpose} needs {package}: pip install 'hypersphere-lab[{extra}]'", name=error.name
        ) from None


def _check_floor(package: str, extra: str, purpose: str) -> None:
    """Refuses a release that is too old for us, by the first two numbers of its version."""
    try:
        version = metadata.version(package.replace("_", "-")) if package in FLOORS else None
    except metadata.PackageNotFoundError:
        return
    if version is not None and _numbers(version) < _numbers(FLOORS[package]):
        raise ImportError(
            f"{purpose} needs {package.replace('_', '-')} {FLOORS[package]} or newer, and {version} is installed: "
            f"pip install -U 'hypersphere-lab[{extra}]'"
        )


def _numbers(version: str) -> list[int]:
    return [int(re.match(r"\d*", part)[0] or 0) for part in version.split(".")[:2]]  # type: ignore[index]
