"""The nearest right name, for whoever mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(given: object, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The known name most like the given one, whatever their case; None if none is as much alike as asked (0 to 1)."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(given).lower(), by_lower, n=1, cutoff=alike)
    return by_lower[near[0]] if near else None


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """The end of a sentence that refuses ``given``: the nearest known name, or nothing if none is near.

    >>> "there is no objective 'InfoNSE'" + did_you_mean("InfoNSE", ["infonce", "ntxent"])
    "there is no objective 'InfoNSE'; did you mean 'infonce'?"
    >>> did_you_mean("xyz", ["infonce"])
    ''
    """
    near = nearest(given, known)
    return f"; did you mean {near!r}?" if near else ""
