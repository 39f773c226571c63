"""Closed forms, which know angles only, beside what dissect takes from gradients of vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.anatomy import Anatomy, closed_form, form_settings
from hypersphere.geometry import unit
from hypersphere.testing.example import views

SIZE = 9
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@dataclass(frozen=True)
class Row:
    """An objective, its parameters, and where its negatives are: "cross", "same" or "both" views.

    extra: further angles that its form reads. measurable: the dissipation apart from the weight; not where a gate
    stands before weights that move with the positive.
    """

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    keys: str = "cross"
    scope: str = "anchor"
    objective: dict[str, Any] = field(default_factory=dict)  # settings that the form does not have
    extra: tuple[str, ...] = ()
    measurable: bool = True

    def create(self) -> Any:
        return hs.create_objective(self.name, **self.params, **self.objective)

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{value}" for value in self.params.values()), self.scope])


def rows_of(matrix: Tensor) -> Tensor:
    """(N, N) or (N, 2N) without the columns of the anchor's own instance."""
    off = ~torch.eye(len(matrix), dtype=torch.bool)
    parts = matrix.split(len(matrix), dim=1)
    return torch.cat([part[off].reshape(len(matrix), -1) for part in parts], dim=1)


def form_of(row: Row, z1: Tensor, z2: Tensor) -> hs.anatomy.Components:
    h, g = unit(z1), unit(z2)
    cosines = {"cross": h @ g.T, "same": h @ h.T, "other": g @ g.T}
    angles = {name: rows_of(matrix.clamp(-1, 1).arccos()) for name, matrix in cosines.items()}
    angles["both"] = torch.cat([angles["cross"], angles["same"]], dim=1)
    positive = (h * g).sum(dim=1).arccos()
    settings = form_settings(row.create())
    assert settings.items() >= row.params.items()
    if row.name == "barlow":
        return closed_form(row.name)(positive, angles["other"], **settings)
    more: dict[str, Any] = {name: angles[name] for name in row.extra}
    if row.name == "dhel":
        more["scope"] = row.scope
    return closed_form(row.name)(positive, angles[row.keys], **more, **settings)


def dissected(row: Row, z1: Tensor, z2: Tensor) -> tuple[Anatomy, Tensor]:
    """The anatomy, and its coefficients of the negatives (N, n)."""
    anatomy = hs.dissect(row.create(), z1, z2, scope=row.scope)
    blocks = {"cross": anatomy.coefficients.cross, "same": anatomy.coefficients.same}
    return anatomy, rows_of(torch.cat(list(blocks.values()), dim=1) if row.keys == "both" else blocks[row.keys])


def assert_dissected_as_stated(row: Row) -> None:
    for seed in range(5):
        z1, z2 = views(SIZE, 4, seed)
        anatomy, coefficients = dissected(row, z1, z2)
        expected = form_of(row, z1, z2)
        product = expected.dissipation[:, None] * expected.weight
        torch.testing.assert_close(coefficients, product, **CLOSE)
        known = (expected.dissipation > 0) & expected.ratio.isfinite()
        pull = -expected.ratio * product.sum(dim=1)
        torch.testing.assert_close(anatomy.coefficients.positive[known], pull[known], **CLOSE)
        if row.measurable:
            torch.testing.assert_close(anatomy.dissipation, expected.dissipation, **CLOSE)
            torch.testing.assert_close(anatomy.ratio[known], expected.ratio[known], rtol=1e-9, atol=1e-10)
            total = anatomy.weight[known].sum(dim=1)
            torch.testing.assert_close(total, expected.weight[known].sum(dim=1), rtol=1e-9, atol=1e-10)


def gates(row: Row) -> set[float]:
    """Both values must occur where a gate is compared: otherwise the comparison says nothing of it."""
    return set(torch.cat([form_of(row, *views(SIZE, 4, seed)).dissipation for seed in range(5)]).tolist())
