"""GOR: moments of the cosines, from features and from pairs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.testing.example import views
from tests import reference as ref

SETTINGS: list[dict[str, Any]] = [
    {},
    {"mean_weight": 0.3, "second_weight": 2.0},
    {"mean_weight": 0.0, "aggregation": "sum", "hinge": False},
]


def loops(
    rows: list[Tensor], kept: Any, mean_weight: float = 1.0, second_weight: float = 1.0, aggregation: str = "mean",
    hinge: bool = True,
) -> float:  # fmt: skip
    """One pair after the other; ``kept(i, j)`` tells which count."""
    total = 0.0
    for z in rows:
        h = ref.unit_rows(z.detach().numpy())
        cosines = [ref.dot(h[i], h[j]) for i in range(len(h)) for j in range(len(h)) if i != j and kept(i, j)]
        if cosines:
            second = ref.mean([c * c for c in cosines])
            second = max(0.0, second - 1 / len(h[0])) if hinge else second
            total += mean_weight * ref.mean(cosines) ** 2 + second_weight * second
    return total / (1 if aggregation == "sum" else len(rows))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("size", [3, 9])  # fewer and more rows than dimensions
def test_features_have_the_moments_of_the_pairs(settings: dict[str, Any], size: int) -> None:
    z1, z2 = views(size, 5)
    z3 = z1 - 2 * z2
    value = hs.create_objective("gor", **settings)(z1, z2, views=(z3,))
    assert value.item() == pytest.approx(loops([z1, z2, z3], lambda i, j: True, **settings), rel=1e-12)


@pytest.mark.parametrize("settings", SETTINGS)
def test_ids_that_are_all_different_leave_value_and_gradient(settings: dict[str, Any]) -> None:
    objective = hs.create_objective("gor", **settings)
    z1, z2 = (z.requires_grad_() for z in views(7, 4))
    plain = objective(z1, z2)
    for block in (2, 7):
        with hs.streaming(block):
            masked = objective(z1, z2, ids=torch.arange(7))
        torch.testing.assert_close(masked, plain, rtol=1e-12, atol=1e-14)
        grads = (torch.autograd.grad(value, [z1, z2], retain_graph=True) for value in (plain, masked))
        for one, two in zip(*grads, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("settings", SETTINGS)
def test_dropped_pairs_leave_the_sums_and_their_number(settings: dict[str, Any]) -> None:
    z1, z2 = views(6, 4)
    ids = torch.tensor([0, 0, 1, -1, 1, 1])

    def kept(i: int, j: int) -> bool:
        return bool(ids[i] != ids[j] or ids[i] < 0)

    value = hs.create_objective("gor", **settings)(z1, z2, ids=ids)
    assert value.item() == pytest.approx(loops([z1, z2], kept, **settings), rel=1e-12)
    assert hs.create_objective("gor", **settings)(z1, z2, ids=torch.zeros(6, dtype=torch.long)).item() == 0


def test_orthonormal_rows_are_at_rest_and_collapsed_ones_are_not() -> None:
    x = torch.eye(4, dtype=torch.float64, requires_grad=True)
    value = hs.create_objective("gor")(x, x)
    (grad,) = torch.autograd.grad(value, x)
    assert value.item() == 0 and not grad.any()
    same = torch.ones(5, 3, dtype=torch.float64)
    assert hs.create_objective("gor")(same, same).item() == pytest.approx(2 - 1 / 3, rel=1e-12)


def test_one_row_is_refused() -> None:
    for more in ({}, {"ids": torch.tensor([0])}):
        with pytest.raises(ValueError, match="gor needs a batch of at least two instances"):
            hs.create_objective("gor")(torch.eye(3)[:1], torch.eye(3)[:1], **more)
