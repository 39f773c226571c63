"""Loop 2: the hardest negative of each anchor, against plain loops over explicit pairs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import masked_max
from hypersphere.objectives import MPT, HardestObjective, Objective
from hypersphere.testing.example import views


class Cubed(HardestObjective):
    """As a user would write one: two matrices, and a loss that is not linear in either."""

    negatives = ("cross", "same")

    def from_hardest(self, positive: Tensor, hardest: Any) -> Tensor:
        across, within = hardest
        return across**3 + 2 * within * across - positive


class OneSided(Cubed):
    one_sided = True


class BothViews(Cubed):
    anchors = "both"
    negatives = "both"

    def from_hardest(self, positive: Tensor, hardest: Any) -> Tensor:
        return hardest.exp() - positive


class Coupled(Cubed):
    """Whose anchors compete."""

    reductions = ("mean",)

    def from_hardest(self, positive: Tensor, hardest: Any) -> Any:
        return {"hardest": hardest[0] + hardest[1], "positive": positive}

    def combine(self, statistics: Any) -> Any:
        return {"loss": torch.logsumexp(3 * statistics["hardest"], dim=0) - statistics["positive"].mean()}


class Learned(Cubed):
    """With a parameter of its own."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.weight = torch.nn.Parameter(torch.tensor([0.7], dtype=torch.float64))

    def from_hardest(self, positive: Tensor, hardest: Any) -> Tensor:
        return self.weight * hardest[0] ** 2 + hardest[1] / self.weight - positive


class SeesMore(MPT):
    """A formula of all similarities, which is the one that counts."""

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        return masked_max(negatives, mask) + (negatives * mask).square().sum(dim=1) - positive


@pytest.mark.parametrize(
    ("objective", "sees"),
    [
        (Cubed(), "hardest"),
        (OneSided(), "hardest"),
        (BothViews(), "hardest"),
        (Coupled(), "hardest"),
        (Learned(), "hardest"),
        (hs.create_objective("mhs", views="both"), "hardest"),
        (hs.create_objective("triplet", distance="angle"), "hardest"),
        (hs.create_objective("triplet", distance=lambda cos: (1 - cos) ** 2, margin=0.5), "all"),
        (hs.create_objective("mixup", base="met"), None),
        (SeesMore(), "all"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Objective) else None,
)
def test_whatever_a_subclass_overrides_is_streamed_as_it_is(objective: Any, sees: str | None) -> None:
    assert getattr(objective, "sees", None) == sees
    hs.testing.assert_streams_exactly(objective)


def test_an_objective_of_the_hardest_runs_on_several_processes() -> None:
    for objective in (Cubed(), Coupled(), Learned()):
        hs.testing.assert_distributed_exact(objective, world_size=2)


def test_the_gradient_is_one_entry_a_row_by_plain_loops() -> None:
    """∂x_i = y_j - y_i and ∂y_j = x_i, ∂y_i = -x_i for the hardest j of each anchor with an open margin."""
    x, y = (torch.nn.functional.normalize(z).requires_grad_() for z in views(23, 4))
    with hs.streaming(6):
        loss = hs.create_objective("mpt", margin=0.4, reduction="sum")(x, y)
        of_x, of_y = torch.autograd.grad(loss, [x, y])
    expected_x, expected_y, total = torch.zeros(23, 4).double(), torch.zeros(23, 4).double(), 0.0
    with torch.no_grad():
        for i in range(23):
            j = max((j for j in range(23) if j != i), key=lambda j: float(x[i] @ y[j]))
            value = 0.4 - float(x[i] @ y[i]) + float(x[i] @ y[j])
            if value > 0:
                total += value
                expected_x[i] += y[j] - y[i]
                expected_y[j] += x[i]
                expected_y[i] -= x[i]
        tangential = [g - (g * h).sum(dim=1, keepdim=True) * h for g, h in ((expected_x, x), (expected_y, y))]
    assert loss.item() == pytest.approx(total, rel=1e-12)
    torch.testing.assert_close([of_x, of_y], tangential, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("extra", [1, 30])
def test_extra_negatives_can_be_the_hardest(extra: int) -> None:
    z1, z2 = (z.requires_grad_() for z in views(12, 4))
    negatives = (3 * z1.detach() + 0.1 * views(12, 4, seed=7)[0])[torch.arange(extra) % 12].requires_grad_()
    results = []
    for context in (hs.dense(), hs.streaming(5)):
        with context:
            loss = hs.create_objective("met")(z1, z2, negatives=negatives)
        results.append([loss, *torch.autograd.grad(loss, [z1, z2, negatives])])
    torch.testing.assert_close(results[1], results[0], rtol=1e-10, atol=1e-12)
    assert results[0][3].abs().sum() > 0


@pytest.mark.filterwarnings("ignore:a batch of one row")
def test_an_anchor_without_negatives_sees_minus_infinity_and_moves_nothing() -> None:
    class Watching(Cubed):
        def from_hardest(self, positive: Tensor, hardest: Any) -> Tensor:
            assert all(bool((h == -torch.inf).all()) for h in hardest)
            return torch.where(hardest[0] > -torch.inf, hardest[0], 0) - positive

    z1, z2 = (z.requires_grad_() for z in views(1, 4))
    for context in (hs.dense(), hs.streaming(2)):
        with context:
            loss = Watching()(z1, z2)
            (grad,) = torch.autograd.grad(loss, z1)
        assert loss.isfinite() and grad.isfinite().all()
