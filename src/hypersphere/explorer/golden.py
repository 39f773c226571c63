"""Golden vectors: values of Python's closed forms and objectives, with which the page's own formulas must agree.

``python -m hypersphere.explorer.golden [FILE]`` writes them as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hypersphere.anatomy import closed_form, hardest_share, list_closed_forms
from hypersphere.anatomy.closed_forms import Components
from hypersphere.diagnostics import alignment, effective_rank, uniformity
from hypersphere.documents import json_safe
from hypersphere.explorer.catalogue import settings_of
from hypersphere.geometry import unit
from hypersphere.objectives import create_objective

POSITIVE = (0.16, 0.5, 1.0, 1.5)  # radians
NEGATIVE = ((0.3, 0.0), (0.9, 0.1), (1.6, 0.3), (2.9, 0.1))  # mean and spread
NUMBERS = (1, 7, 127)  # of negatives
VARIED: dict[str, tuple[dict[str, Any], ...]] = {
    "infonce": ({"temperature": 0.5},),
    "kcl": (
        {"kernel": "log"},
        {"kernel": "imq"},
        {"kernel": "gaussian_riesz"},
        {"kernel": "riesz", "s": -1.0},
        {"views": "both"},
    ),
    "triplet": tuple({"distance": each, "margin": 0.3} for each in ("dot", "euclidean", "angle")),
    "align_uniform": ({"alpha": 1.0, "weight": 0.2}, {"t": 5.0}),
    "barlow": ({"weight": 1.0},),
    "mbarlow": ({"stage": "original"}, {"stage": "+gd"}, {"stage": "+w"}, {"stage": "original", "weight": 1.0}),
    "mmhe": tuple({"stage": each} for each in ("original", "+gd", "+w")),
    "mmhs": tuple({"stage": each, "weight": 3.0} for each in ("original", "+gd", "+r")),
    "mvicreg": tuple({"stage": each} for each in ("original", "+gd", "+w")),
}
MOVING = (
    "infonce", "ntxent", "dcl", "dcl_plus", "met", "mpt", "mat", "arccon", "dhel", "kcl", "align_uniform", "siglip",
    "spectral", "koleo",
)  # fmt: skip


def spread_angles(mean: float, spread: float, num_angles: int) -> Tensor:
    """(num_angles,) angles at the middles of equal shares of a normal distribution: draws without chance.

    >>> spread_angles(1.0, 0.1, 3).tolist()
    [0.9033, 1.0, 1.0967]
    """
    shares = (torch.arange(num_angles, dtype=torch.float64) + 0.5) / num_angles
    quantiles: Tensor = torch.special.ndtri(shares)
    return mean + spread * quantiles


def gradient_norm(components: Components, positive: Tensor, negative: Tensor) -> Tensor:
    """Length of an anchor's gradient along the sphere, if positive and negatives lie in orthogonal directions from it:
    GD sqrt( Σ_j (W_j sin θ_j)² + (R Σ_j W_j sin θ_p)² )."""
    push = (components.weight * negative.sin()).square().sum(dim=-1)
    pull = components.ratio * components.weight.sum(dim=-1) * positive.sin()
    return components.dissipation * (push + pull.square()).sqrt()


def defaults(name: str) -> dict[str, Any]:
    """The settings that the page starts with."""
    if name == "vicreg_surrogate":  # no objective: a form of Li's Table 2
        return {"dim": 64, "weight": 1.0}
    return {each["name"]: each["default"] for each in settings_of(name)}


def maps() -> Iterator[dict[str, Any]]:
    """Cells of maps: dissipation, share of the hardest, ratio and gradient norm of every closed form."""
    for name in list_closed_forms():
        for varied in ({}, *VARIED.get(name, ())):
            settings = {**defaults(name), **varied}
            cells = [_cell(name, settings, *at) for at in product(POSITIVE, NEGATIVE, NUMBERS)]
            yield {"name": name, "settings": settings, "cells": cells}


def _cell(name: str, settings: dict[str, Any], angle: float, around: tuple[float, float], num_negatives: int) -> Any:
    positive = torch.tensor([angle], dtype=torch.float64)
    negative = spread_angles(*around, num_negatives).unsqueeze(0)
    components = closed_form(name)(positive, negative, **settings)
    return {
        "positive": angle,
        "negative": negative[0].tolist(),
        "mean": around[0],
        "spread": around[1],
        "dissipation": float(components.dissipation),
        "hardestShare": float(hardest_share(components)),
        "total": float(components.weight.sum(dim=-1)),
        "ratio": float(components.ratio),
        "norm": float(gradient_norm(components, positive, negative)),
    }


def points() -> Iterator[dict[str, Any]]:
    """Batches on the sphere: value and gradient of every objective that moves points, and numbers of the batch."""
    for batch, (z1, z2) in enumerate(_batches()):
        for name in MOVING:
            settings = {key: value for key, value in defaults(name).items() if key not in ("kernel", "c", "s", "views")}
            yield _moved(name, settings, z1, z2, batch)
            yield _anchored(name, settings, z1, z2, batch)


def _batches() -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    for size, spread, noise in ((2, 1.0, 0.5), (6, 1.0, 0.3), (9, 0.2, 0.05), (12, 1.0, 2.0)):
        centre = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
        draws = torch.randn(2, size, 3, generator=generator, dtype=torch.float64)
        z1 = unit(centre + draws[0] * spread)
        yield z1, unit(z1 + noise * draws[1])


def _moved(name: str, settings: dict[str, Any], z1: Tensor, z2: Tensor, batch: int) -> dict[str, Any]:
    objective = create_objective(name, **{**settings, **_fixed(name)})
    return {"name": name, "settings": settings, **_graded(objective, z1, z2), "batch": batch}


def _fixed(name: str) -> dict[str, Any]:
    return {"learnable": False} if name == "siglip" else {}


def _anchored(name: str, settings: dict[str, Any], z1: Tensor, z2: Tensor, batch: int) -> dict[str, Any]:
    """The same under CLOA, with some rows unlabelled."""
    labels = torch.arange(len(z1)) % 4 - 1
    base = {"name": name, **settings, **_fixed(name)}
    objective: Any = create_objective("cloa", base=base, num_classes=3, dim=3, weight=1.5)
    directions = unit(objective.anchors.double()).tolist()
    anchors = {"directions": directions, "labels": labels.tolist(), "weight": 1.5}
    graded = _graded(objective, z1, z2, labels)
    return {"name": name, "settings": settings, "anchors": anchors, **graded, "batch": batch}


def _graded(objective: Any, z1: Tensor, z2: Tensor, labels: Tensor | None = None) -> dict[str, Any]:
    x, y = (each.clone().requires_grad_() for each in (z1, z2))
    value = objective(x, y) if labels is None else objective(x, y, labels)
    gx, gy = torch.autograd.grad(value, (x, y), allow_unused=True, materialize_grads=True)
    return {"x": z1.flatten().tolist(), "y": z2.flatten().tolist(), "value": value.item(),
            "gx": gx.flatten().tolist(), "gy": gy.flatten().tolist()}  # fmt: skip


def numbers() -> Iterator[dict[str, Any]]:
    """Energy, alignment, uniformity and rank of the batches."""
    for z1, z2 in _batches():
        energy = create_objective("mhe", s=1.0, weight=1.0).terms(z1, z2)["energy"]
        yield {
            "x": z1.flatten().tolist(),
            "y": z2.flatten().tolist(),
            "energy": energy.item(),
            "alignment": alignment(z1, z2),
            "uniformity": (uniformity(z1) + uniformity(z2)) / 2,
            "rank": effective_rank(z1),
        }


def golden() -> dict[str, Any]:
    safe: dict[str, Any] = json_safe({"maps": list(maps()), "points": list(points()), "numbers": list(numbers())})
    return safe


def main(arguments: list[str]) -> int:
    text = json.dumps(golden(), allow_nan=False)
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
