"""What a cell will take, from what it took at smaller sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

REACH = 8  # sizes further apart than this factor say nothing about each other
Known = Sequence[tuple[int, float]]  # sizes in rising order, and what they took


def expected(known: Known, size: int, alone: float = 2.0, most: float = 3.0, reach: float = REACH) -> float | None:
    """Extrapolated as a power of the size: that of the two largest known sizes, between 1 and ``most``, or ``alone`` if
    only one is known.

    >>> expected([(64, 1.0)], 128)
    4.0
    >>> expected([(64, 1.0), (128, 8.0)], 256)
    64.0
    >>> expected([(64, 1.0)], 65536) is None
    True
    """
    smaller = [(n, max(taken, 1e-9)) for n, taken in known if n < size]
    if not smaller or size > reach * smaller[-1][0]:
        return None
    n, taken = smaller[-1]
    power = alone
    if len(smaller) > 1:
        before, less = smaller[-2]
        power = min(max(math.log(taken / less) / math.log(n / before), 1.0), most)
    return float(taken * (size / n) ** power)
