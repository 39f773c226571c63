"""The paradigm rebuilds losses from dissipation, weight and ratio."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import unit
from hypersphere.testing.example import views
from tests.theory import (
    Params,
    gradients,
    loss_gradients,
)


def above_zero(positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
    """1[dcl_i > 0] at temperature .2."""
    others = torch.where(mask, negatives / 0.2, -math.inf).logsumexp(dim=1)
    return (others > positive / 0.2).to(positive)


SCALED = {"name": "softmax", "temperature": 0.2, "scaled": True}
SHIFTED = {"name": "softmax", "temperature": 0.2, "angle": 0.3}
REBUILDS: list[tuple[str, Params, Params]] = [
    ("dcl", {"temperature": 0.2}, {"dissipation": "none", "weight": SCALED}),
    ("dcl_plus", {"temperature": 0.2}, {"dissipation": above_zero, "weight": SCALED}),
    ("mpt", {"margin": 0.6}, {"dissipation": {"name": "margin", "margin": 0.6}, "weight": "hardest"}),
    ("mat", {"margin": 0.6}, {"dissipation": {"name": "angle", "margin": 0.6}, "weight": "angle", "ratio": "angle"}),
    (
        "arccon",
        {"temperature": 0.2, "angle": 0.3},
        {"dissipation": SHIFTED, "weight": SCALED, "ratio": {"name": "arccon", "angle": 0.3}},
    ),
    ("dhel", {"temperature": 0.2}, {"dissipation": "none", "weight": SCALED, "negatives": "same"}),
]


@pytest.mark.parametrize(("name", "params", "components"), REBUILDS, ids=[name for name, *_ in REBUILDS])
def test_the_paradigm_rebuilds_the_full_gradient_in_both_views(name: str, params: Params, components: Params) -> None:
    z1, z2 = views(7, 4)
    rebuilt = gradients(hs.create_objective("paradigm", **components), z1, z2)
    for one, two in zip(rebuilt, gradients(hs.create_objective(name, **params), z1, z2), strict=True):
        assert two.abs().max() > 1e-3
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


def test_the_paradigm_rebuilds_mhe_with_a_global_weight_and_a_ratio_of_its_own() -> None:
    """W_ij = νN e^{2a_ij}/Σ_{k<l}, as the mean over anchors counts every pair from both ends; R_i = 2/Σ_j W_ij."""

    def weight(positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        powers = torch.exp(2 * negatives) * mask
        return 10 * len(positive) * powers / (powers.sum() / 2)

    z1, z2 = views(7, 4)
    rebuilt = hs.create_objective(
        "paradigm",
        dissipation="none",
        weight=weight,
        ratio=lambda p, n, m: 2 / weight(p, n, m).sum(dim=1),
        negatives="same",
    )
    expected = gradients(hs.create_objective("mhe", weight=10.0), z1, z2)
    for one, two in zip(gradients(rebuilt, z1, z2), expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


NAMED_REBUILDS = [
    ("infonce", {"temperature": 0.2}, {"name": "softmax", "temperature": 0.2},
     {"name": "softmax", "temperature": 0.2, "scaled": True}, "constant"),
    ("met", {"margin": 0.9}, {"name": "euclidean", "margin": 0.9}, "euclidean", "euclidean"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params", "dissipation", "weight", "ratio"), NAMED_REBUILDS)
def test_the_paradigm_rebuilds_the_gradient_in_both_views(
    name: str, params: dict[str, Any], dissipation: Any, weight: Any, ratio: Any
) -> None:
    z1, z2 = views(7, 4)
    expected = loss_gradients(hs.create_objective(name, **params), z1, z2)
    rebuilt = hs.create_objective("paradigm", dissipation=dissipation, weight=weight, ratio=ratio)
    for one, two in zip(loss_gradients(rebuilt, z1, z2), expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


def test_the_paradigm_takes_callables() -> None:
    z1, z2 = views(5, 4)
    composed = hs.create_objective(
        "paradigm",
        dissipation=lambda p, n, m: torch.ones_like(p),
        weight=lambda p, n, m: torch.ones_like(n),
        ratio="constant",
    )
    s = unit(z1) @ unit(z2).T
    expected = (s.sum() - s.diagonal().sum() - 4 * s.diagonal().sum()) / 5
    assert composed(z1, z2).item() == pytest.approx(expected.item(), rel=1e-12)
