"""Results as JSON knows them."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """The same with null for every number that is none: JSON has neither NaN nor infinity.

    >>> plain({"knn": float("nan"), "steps": [1, 2.5]})
    {'knn': None, 'steps': [1, 2.5]}
    """
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
