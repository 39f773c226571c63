"""The nearest known name to a mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 100  # characters of what may be a mistyped name


def nearest(given: object, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The known name most similar to the given one, ignoring case; None if none is as similar as required (0 to 1)."""
    return next(iter(nearest_names(given, known, most=1, alike=alike)), None)


def nearest_names(given: object, known: Iterable[str], most: int = 3, alike: float = 0.6) -> list[str]:
    """As ``nearest``, the nearest first and up to ``most`` of them.

    >>> nearest_names("mh", ["mhe", "mhs", "infonce"])
    ['mhs', 'mhe']
    """
    if len(str(given)) > LONGEST:  # the time of a comparison grows with the square of the length
        return []
    by_lower = {name.lower(): name for name in known}
    return [by_lower[near] for near in difflib.get_close_matches(str(given).lower(), by_lower, n=most, cutoff=alike)]


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """The end of a sentence that refuses ``given``: the nearest known name, or nothing if none is near.

    >>> "there is no objective 'InfoNSE'" + did_you_mean("InfoNSE", ["infonce", "ntxent"])
    "there is no objective 'InfoNSE'; did you mean 'infonce'?"
    >>> did_you_mean("xyz", ["infonce"])
    ''
    """
    near = nearest(given, known)
    return f"; did you mean {near!r}?" if near else ""
