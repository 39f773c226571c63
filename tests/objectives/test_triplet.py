"""Triplets at their margin, and with equally hard negatives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import tangent, unit
from hypersphere.testing.example import views
from tests.theory import gradients, loss_gradients, own_gradient, per_anchor


@pytest.mark.parametrize(("name", "measure"), [("mpt", lambda c: -c), ("mat", torch.arccos)], ids=["mpt", "mat"])
def test_a_triplet_stops_exactly_at_its_margin(name: str, measure: Callable[[Tensor], Tensor]) -> None:
    x = torch.eye(4, dtype=torch.float64)
    y = unit(x + 0.1 * torch.ones(4, dtype=torch.float64))
    gap = (measure(x[0] @ y[1]) - measure(x[0] @ y[0])).item()
    below, above = (hs.create_objective(name, margin=gap + step) for step in (-1e-9, 1e-9))
    assert below(x, y).item() == 0
    assert above(x, y).item() == pytest.approx(1e-9, rel=1e-3)
    for grad in gradients(below, x, y):
        assert (grad == 0).all()
    for grad in gradients(above, x, y):
        assert (grad.abs().amax(dim=1) > 1e-2).all()


def test_met_stops_exactly_at_its_margin() -> None:
    """The nearest negative is at distance sqrt(2) - d of a positive at d; a margin just below that is met."""
    x = torch.eye(4, dtype=torch.float64)
    y = unit(x + 0.1 * torch.ones(4, dtype=torch.float64))
    distances = torch.cdist(x, y)
    gap = (distances[0, 1] - distances[0, 0]).item()
    for step in (1e-9, -1e-9):
        one, two = loss_gradients(hs.create_objective("met", margin=gap + step), x, y)
        value = hs.create_objective("met", margin=gap + step)(x, y).item()
        if step > 0:
            assert value == pytest.approx(step, rel=1e-3)
            assert (one.abs().amax(dim=1) > 0.1).all()
        else:
            assert value == 0
            assert (one == 0).all()
            assert (two == 0).all()


def test_duplicated_hardest_negatives_give_a_finite_subgradient() -> None:
    z1, z2 = views(5, 4)
    z2[3] = z2[2]
    one, two = loss_gradients(hs.create_objective("met", margin=3.0), z1, z2)
    assert one.isfinite().all()
    assert two.isfinite().all()


@pytest.mark.parametrize("name", ["mpt", "met", "mat"])
def test_of_two_equally_hard_negatives_one_gets_the_whole_subgradient(name: str) -> None:
    """The tied keys are one vector, so the anchor's gradient does not depend on which of them it is."""
    z1, z2 = (unit(z) for z in views(5, 4))
    z2[3] = z2[2]
    for i in (0, 1, 4):
        leaf = z1.clone().requires_grad_()
        (grad,) = torch.autograd.grad(per_anchor(name, leaf, z2, margin=3.0)[i], leaf)
        others = [j for j in range(5) if j != i]
        closed = own_gradient(name, {"margin": 3.0}, z1[i], z2[i], z2[others])
        torch.testing.assert_close(grad[i], tangent(closed, z1[i]), rtol=1e-9, atol=1e-12)
