"""CLOA: its anchors, its pull, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import tangent, unit
from hypersphere.testing.example import some_labels, views
from tests import reference as ref
from tests.objectives.released.batch import BATCH


def test_cloa_anchors_are_orthonormal_seeded_and_still_pull_at_collapse() -> None:
    objective = hs.create_objective("cloa", base="ntxent", num_classes=3, dim=5, seed=4)
    anchors = objective.anchors.double()
    torch.testing.assert_close(anchors @ anchors.T, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-6)
    assert torch.equal(hs.create_objective("cloa", num_classes=3, dim=5, seed=4).anchors, objective.anchors)
    assert not torch.equal(hs.create_objective("cloa", num_classes=3, dim=5, seed=5).anchors, objective.anchors)
    collapsed = unit(torch.tensor([[0.3, -0.5, 0.2, 0.7, 0.1]], dtype=torch.float64)).expand(6, 5)
    labels = torch.tensor([0, 1, 2, 0, 1, -1])
    z = collapsed.clone().requires_grad_()
    objective(z, collapsed, labels).backward()
    chosen = unit(anchors)[labels.clamp_min(0)]
    expected = -tangent(chosen, collapsed) / 10  # mean over five labelled rows of two views
    expected[5] = 0
    torch.testing.assert_close(z.grad, expected, rtol=1e-6, atol=1e-9)
    assert (z.grad[:5].norm(dim=1) > 1e-3).all()


def test_cloa_takes_any_module_as_base() -> None:
    class Plain(torch.nn.Module):
        def forward(self, z1: torch.Tensor, z2: torch.Tensor) -> torch.Tensor:
            return (z1 - z2).pow(2).mean()

    z1, z2 = views(4, 5)
    objective = hs.create_objective("cloa", base=Plain(), num_classes=2, dim=5)
    assert objective(z1, z2).item() == (z1 - z2).pow(2).mean().item()


def test_golden_cloa_with_the_basis_as_anchors() -> None:
    z1, _ = (torch.as_tensor(np.asarray(z), dtype=torch.float64) for z in ref.golden_views())
    objective = hs.create_objective("cloa", num_classes=2, dim=4)
    objective.anchors.copy_(torch.eye(4)[:2])
    parts = objective.terms(z1, z1, torch.tensor([0, 1, 0, 1, 0]))
    assert 5 * parts["anchors"].item() == pytest.approx(ref.GOLDEN["cloa_sum(e0,e1;labels01010;h)"], abs=1e-9)


def test_cloa_equals_its_plain_loop() -> None:
    z1, z2 = views(7, 4)
    labels = torch.tensor([0, 1, 0, -1, 1, 0, -1])
    objective = hs.create_objective("cloa", base="met", num_classes=2, dim=4, seed=3)
    base = ref.met(z1.numpy(), z2.numpy())
    pull = ref.cloa_term(objective.anchors.double().numpy(), labels.numpy(), z1.numpy(), z2.numpy())
    assert objective(z1, z2, labels).item() == pytest.approx(base + pull, abs=1e-12)
    assert objective(z1, z2, torch.full((7,), -1)).item() == pytest.approx(base, abs=1e-12)
    assert objective(z1, z2).item() == pytest.approx(base, abs=1e-12)


def test_the_weight_of_cloa_counts() -> None:
    z1, z2 = views(6, 4)
    labels = some_labels(6)
    one, three = (
        hs.create_objective("cloa", num_classes=2, dim=4, weight=w)(z1, z2, labels).item() for w in (1.0, 3.0)
    )
    base = hs.create_objective("ntxent")(z1, z2).item()
    assert three - base == pytest.approx(3 * (one - base), rel=1e-9)


def test_the_sum_of_cloa_reaches_an_objective_that_exists() -> None:
    objective = hs.create_objective("cloa", num_classes=2, dim=4)
    labels = torch.tensor([0, 1, 0, -1, 1, 0, -1])
    mean = objective.terms(*BATCH, labels)["anchors"].item()
    objective.reduction = "sum"
    assert objective.terms(*BATCH, labels)["anchors"].item() == pytest.approx(10 * mean, rel=1e-6)


def test_the_sum_of_cloa_is_the_papers_with_its_base_summed_too() -> None:
    """Eq. 1 over the 2N stacked rows, and Eq. 2 over the labelled rows of both views."""
    labels = torch.tensor([0, 1, 0, -1, 1, 0, -1])
    objective = hs.create_objective("cloa", num_classes=2, dim=4, reduction="sum")
    rows, anchors = ref.unit_rows(BATCH[0]) + ref.unit_rows(BATCH[1]), ref.to_rows(objective.anchors.double())
    total = 0.0
    for i, row in enumerate(rows):
        logits = [ref.dot(row, other) / 0.5 for a, other in enumerate(rows) if a != i]
        total += ref.logsumexp(logits) - ref.dot(row, rows[(i + 7) % 14]) / 0.5
        total += 1 - ref.dot(row, anchors[labels[i % 7]]) if labels[i % 7] >= 0 else 0
    assert objective(*BATCH, labels).item() == pytest.approx(total, rel=1e-6)


def test_a_base_keeps_the_reduction_it_was_given() -> None:
    def reductions(base: Any, **params: Any) -> str:
        return str(hs.create_objective("cloa", base=base, num_classes=2, dim=4, **params).base.reduction)

    assert reductions("mmhe") == "sum" and reductions("infonce") == "mean"  # their own, unless one is asked for
    assert reductions("mmhe", reduction="mean") == "mean" and reductions("infonce", reduction="sum") == "sum"
    assert reductions({"name": "dcl", "reduction": "mean"}, reduction="sum") == "mean"
    assert reductions(hs.create_objective("dcl"), reduction="sum") == "mean"
    with pytest.raises(ValueError, match="vicreg has no reduction 'sum', only 'mean'"):
        reductions("vicreg", reduction="sum")
    assert reductions({"name": "vicreg", "reduction": "mean"}, reduction="sum") == "mean"


@pytest.mark.filterwarnings("ignore:a batch of one row")
def test_cloa_adds_its_pull_to_what_the_base_is() -> None:
    z1, z2 = views(1, 4)
    c = (unit(z1) * unit(z2)).sum().item()
    objective = hs.create_objective("cloa", base="dcl", num_classes=2, dim=4).double()
    of_class = [(unit(z) @ objective.anchors[1]).item() for z in (z1, z2)]
    value = objective(z1, z2, torch.tensor([1]))
    assert value.item() == pytest.approx(-c / 0.05 + 1 - sum(of_class) / 2, rel=1e-6)
    assert objective(z1, z2, torch.tensor([-1])).item() == pytest.approx(-c / 0.05)


EYE = torch.eye(4)


def test_cloa_refuses_labels_and_dimensions_it_has_no_anchors_for() -> None:
    objective = hs.create_objective("cloa", num_classes=2, dim=4)
    with pytest.raises(ValueError, match=r"below the number of classes \(2\)"):
        objective(EYE, EYE, torch.tensor([0, 1, 2, 0]))
    with pytest.raises(ValueError, match="4 dimensions but the views have 5"):
        objective(torch.eye(5), torch.eye(5), torch.zeros(5, dtype=torch.int64))
    inner = hs.create_objective("infonce")
    with pytest.raises(ValueError, match="has not"):
        hs.create_objective("cloa", num_classes=2, dim=4, base=inner, gather=True)


@pytest.mark.parametrize(
    "base", [{"name": "infonce", "reduction": "none"}, hs.create_objective("mpt", reduction="none")]
)
def test_cloa_refuses_a_base_that_is_not_one_number(base):
    with pytest.raises(ValueError, match="adds its pull to one number"):
        hs.create_objective("cloa", base=base, num_classes=5, dim=6)


def test_cloa_refuses_a_foreign_base_that_is_not_one_number():
    class Each(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return (a * b).sum(dim=1)

    with pytest.raises(ValueError, match=r"its base gives \(12,\)"):
        hs.create_objective("cloa", base=Each(), num_classes=5, dim=6)(*views(12, 6), torch.arange(12) % 5)
