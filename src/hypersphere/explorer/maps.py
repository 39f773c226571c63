"""Maps over the angles that Python computes, for objectives whose formula the page does not have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from hypersphere.anatomy import AngleGrid, closed_form, dissect, form_settings, hardest_share, mean_dissipation
from hypersphere.anatomy.simulation import simulate_together
from hypersphere.messages import quoted
from hypersphere.names import did_you_mean
from hypersphere.objectives import Objective, create_objective, list_objectives
from hypersphere.objectives.registry import objective_class
from hypersphere.objectives.settings import Choice

POINTS = (4, 40)  # of a side, at least and at most
NEGATIVES = (1, 64)
GRID = AngleGrid()


def compute_map(name: str, settings: Mapping[str, Any], points: int = 16, negatives: int = 15) -> dict[str, Any]:
    """Dissipation, the hardest negative's share of the weight, ratio and gradient norm: rows the positive's angle,
    columns the negatives'.

    With a closed form, angles are drawn around the cell's as Li et al. 2024 draw them, and the ratio is that at the
    cell's own angles. Without one, ``dissect`` takes apart a batch whose first anchor has its positive and all its
    negatives at these angles, the negatives in directions of their own and equal in both views.
    """
    if name not in list_objectives():
        raise ValueError(f"there is no objective {name!r}{did_you_mean(name, list_objectives()) or '.'}")
    for value, (least, most), word in ((points, POINTS, "points"), (negatives, NEGATIVES, "negatives")):
        if not least <= value <= most:
            raise ValueError(f"{word} is a number from {least} to {most}, not {value}")
    return _computed(name, tuple(sorted(checked_settings(name, settings).items())), points, negatives)


@lru_cache(maxsize=64)
def _computed(name: str, settings: tuple[tuple[str, Any], ...], points: int, negatives: int) -> dict[str, Any]:
    objective = create_objective(name, **dict(settings))
    grid = AngleGrid(points=points, batches=64, negatives=negatives)
    try:
        form = form_settings(objective)
        maps, how = _from_form(name, form, grid), "closed form"
    except ValueError:
        maps, how = _from_gradient(objective, grid), "gradient"
    positive, negative = (means.tolist() for means in grid.means())
    note = {
        "closed form": f"Computed by Python from the closed form: {negatives} negatives, angles drawn around the "
        f"cell's (spread {grid.positive_spread:g} and {grid.negative_spread:g}); ratio at the cell's own angles.",
        "gradient": f"There is no closed form, so Python took gradients apart at {points} × {points} pairs of angles: "
        f"one anchor, its positive, and {negatives} negatives in directions of their own, equal in both views.",
    }[how]
    return {"objective": name, "settings": dict(settings), "computed": how, "note": note, "positive": positive,
            "negative": negative, "negatives": negatives,
            "maps": {key: _rounded(values) for key, values in maps.items()}}  # fmt: skip


def _from_form(name: str, settings: Mapping[str, Any], grid: AngleGrid) -> dict[str, Tensor]:
    rows = torch.stack(list(simulate_together([(name, settings)], grid, (mean_dissipation, hardest_share))))[:, 0]
    positive, negative = grid.means()
    at = closed_form(name)(
        positive[:, None].expand(-1, grid.points),
        negative[None, :, None].expand(grid.points, -1, grid.negatives),
        **settings,
    )
    return {"dissipation": rows[:, 0], "weight": rows[:, 1], "ratio": at.ratio}


def _from_gradient(objective: Objective, grid: AngleGrid) -> dict[str, Tensor]:
    """Each cell from a batch of its own, by ``dissect``."""
    positive, negative = grid.means()
    names = ("dissipation", "weight", "ratio", "norm")
    maps = {name: torch.full((grid.points, grid.points), math.nan, dtype=torch.float64) for name in names}
    for row, near in enumerate(positive.tolist()):
        for column, far in enumerate(negative.tolist()):
            anatomy = dissect(objective, *batch_at(near, far, grid.negatives), most_anchors=1)
            weight = anatomy.weight[0].abs()
            parts = anatomy.parts()
            cell = (anatomy.dissipation[0], weight.max() / weight.sum(), anatomy.ratio[0],
                    (parts["alignment"][0] + parts["uniformity"][0]).norm())  # fmt: skip
            for name, value in zip(names, cell, strict=True):
                maps[name][row, column] = value
    return maps


def batch_at(positive: float, negative: float, negatives: int) -> tuple[Tensor, Tensor]:
    """Two views (n + 1, n + 2) whose first row has its positive and every negative at the given angles.

    >>> z1, z2 = batch_at(0.3, 1.2, 4)
    >>> torch.arccos(z1[0] @ z2.T).tolist()
    [0.3, 1.2, 1.2, 1.2, 1.2]
    """
    z1 = torch.zeros(negatives + 1, negatives + 2, dtype=torch.float64)
    z1[1:, 0] = math.cos(negative)
    z1[1:, 1:-1] = math.sin(negative) * torch.eye(negatives, dtype=torch.float64)
    z1[0, 0] = 1.0
    z2 = z1.clone()
    z2[0, 0], z2[0, -1] = math.cos(positive), math.sin(positive)
    return z1, z2


def checked_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as an address gives them: numbers, and the words of a choice. Any other word is refused: the name of a
    component or of a base could make Python open a file."""
    declared, checked = objective_class(name).settings(), {}
    for key, value in settings.items():
        if key not in declared:
            raise ValueError(f"{name} has no setting {key!r}{did_you_mean(key, declared) or ''}")
        if isinstance(setting := declared[key], Choice) and value in setting.words:
            checked[key] = value
            continue
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"{key} is a number, not {quoted(value, 40)}")
        checked[key] = int(number) if number.is_integer() and abs(number) < 2**53 else number
    return checked


def _rounded(values: Tensor) -> list[list[float | None]]:
    return [[round(each, 6) if math.isfinite(each) else None for each in row] for row in values.tolist()]
