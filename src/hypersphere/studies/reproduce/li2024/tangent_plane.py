"""The tangent plane at an anchor, in which pictures of steps are drawn.

The view is along the anchor: a vector is drawn at its tangential part, so that lengths in the plane are true.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ANCHOR = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)


def at(polar: float, around: float) -> Tensor:
    """A unit vector at an angle from the anchor and a direction around it, both in degrees: (1, 3)."""
    p, a = math.radians(polar), math.radians(around)
    return torch.tensor([[math.sin(p) * math.cos(a), math.sin(p) * math.sin(a), math.cos(p)]], dtype=torch.float64)


def xy(place: Any) -> tuple[float, float]:
    return float(place[0]), float(place[1])


def draw_arrow(axis: Axes, start: Any, end: Any, colour: str, width: float) -> None:
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    size = {"mutation_scale": 8 + 3 * width}
    axis.annotate("", end, start, annotation_clip=False, arrowprops={**look, **size}, zorder=4)
