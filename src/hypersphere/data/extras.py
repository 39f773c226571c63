"""Libraries that come with an extra of the package, imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need(module: str, extra: str, purpose: str) -> Any:
    """The imported module, or one sentence that names the extra it comes with.

    >>> need("math", "image", "counting").sqrt(4.0)
    2.0
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not (error.name and module.startswith(error.name)):  # it is there, and misses something of its own
            raise
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"{purpose} needs {package}: pip install 'hypersphere[{extra}]'", name=error.name
        ) from None
