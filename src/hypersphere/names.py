"""The nearest right name, for whoever mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """The end of a sentence that refuses ``given``: the nearest known name, or nothing if none is near.

    >>> "there is no objective 'InfoNSE'" + did_you_mean("InfoNSE", ["infonce", "ntxent"])
    "there is no objective 'InfoNSE'; did you mean 'infonce'?"
    >>> did_you_mean("xyz", ["infonce"])
    ''
    """
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(given).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""
