"""Losses in which each anchor has its own negatives: their forms in angles beside gradients of vectors."""

from __future__ import annotations

import pytest
import torch

from hypersphere.anatomy import closed_form
from tests.anatomy.closed_forms.angles import Row, assert_dissected_as_stated, gates

ROWS = [
    Row("infonce", {"temperature": 0.2}),
    Row("ntxent", {"temperature": 0.4}, "both"),
    Row("arccon", {"temperature": 0.2, "angle": 0.3}),
    Row("dcl", {"temperature": 0.3}),
    Row("dcl", {"temperature": 0.3}, "both", objective={"negatives": "both"}),
    Row("dcl_plus", {"temperature": 0.3}),
    Row("mpt", {"margin": 0.5}),
    Row("met", {"margin": 0.5}),
    Row("mat", {"margin": 0.5}),
    *[Row("triplet", {"distance": kind, "margin": 0.5}) for kind in ("dot", "euclidean", "angle")],
    Row("paradigm"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_dissection_equals_the_closed_form(row: Row) -> None:
    assert_dissected_as_stated(row)


@pytest.mark.parametrize("name", ["dcl_plus", "mpt", "met", "mat", "paradigm"])
def test_some_gates_are_open_and_some_closed(name: str) -> None:
    assert all(gates(row) == {0.0, 1.0} for row in ROWS if row.name == name)


def test_dissipation_line_of_infonce() -> None:
    """GD = 1/2 exactly where cos θ_p - cos θ_n = τ log n, all negatives at one angle."""
    for n, gap in ((63, 0.207), (127, 0.242)):
        negative = torch.full((1, n), 1.2, dtype=torch.float64)
        positive = torch.acos(negative[0, :1].cos() + 0.05 * torch.log(torch.tensor(float(n))))
        assert closed_form("infonce")(positive, negative).dissipation.item() == pytest.approx(0.5, abs=1e-7)
        assert (positive.cos() - negative[0, 0].cos()).item() == pytest.approx(gap, abs=5e-4)


def test_a_distance_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="distance must be dot, euclidean, angle, not 'cosine'"):
        closed_form("triplet")(torch.ones(2), torch.ones(2, 3), distance="cosine")
