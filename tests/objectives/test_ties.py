"""Gates at their margin, duplicates and ties."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import tangent, unit
from hypersphere.testing.example import some_labels, views
from tests import cases
from tests.theory import Params, gradients, own_gradient, per_anchor


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "params"), **cases.named(cases.ALL))
def test_duplicates_and_ties_leave_value_and_gradient_finite(name: str, params: Params, dtype: torch.dtype) -> None:
    z1, z2 = views(6, 4, dtype=dtype)
    tied = z2.clone()
    tied[3] = tied[2]  # two equally hard negatives for everybody else
    for one, two in ((z1, tied), (tied, tied), (z1[[0, 0, 1, 1, 2, 2]], z2[[0, 0, 1, 1, 2, 2]])):
        a, b = one.clone().requires_grad_(), two.clone().requires_grad_()
        value = hs.create_objective(name, **params)(a, b, some_labels(6))
        assert value.isfinite()
        for grad in torch.autograd.grad(value, [a, b], allow_unused=True):
            assert grad is None or grad.isfinite().all()


@pytest.mark.parametrize("name", ["mpt", "met", "mat"])
def test_of_two_equally_hard_negatives_one_gets_the_whole_subgradient(name: str) -> None:
    """The tied keys are one vector, so the anchor's gradient does not depend on which of them it is."""
    z1, z2 = (unit(z) for z in views(5, 4))
    z2[3] = z2[2]
    for i in (0, 1, 4):
        leaf = z1.clone().requires_grad_()
        (found,) = torch.autograd.grad(per_anchor(name, leaf, z2, margin=3.0)[i], leaf)
        others = [j for j in range(5) if j != i]
        closed = own_gradient(name, {"margin": 3.0}, z1[i], z2[i], z2[others])
        torch.testing.assert_close(found[i], tangent(closed, z1[i]), rtol=1e-9, atol=1e-12)
