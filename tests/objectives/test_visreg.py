"""VISReg: mean, deviation and quantiles of the features."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.objectives.visreg import quantile_distance
from hypersphere.testing.example import views
from tests import reference as ref


def regulariser(**params: Any) -> hs.objectives.Objective:
    return hs.create_objective("visreg", **{"weight": 1.0, "num_slices": 16, **params}).eval()


def test_two_rows_have_the_quantiles_of_a_third_and_two_thirds() -> None:
    """Standardised, either feature of two rows is ±1; on the axes the gap is 1 - 0.4307."""
    objective = regulariser(scale=0.0, center=0.0)
    objective.directions = lambda dim: torch.eye(dim, dtype=torch.float64)
    z = torch.tensor([[5.0, -1.0], [2.0, 3.0]], dtype=torch.float64)
    assert objective(z, z).item() == pytest.approx((1 - 0.4307273) ** 2, rel=1e-6)


def test_collapsed_rows_have_their_value_and_a_gradient_of_the_mean_alone() -> None:
    z = torch.full((6, 4), 0.25, dtype=torch.float64, requires_grad=True)
    value = regulariser()(z, z)
    quantiles = [NormalDist().inv_cdf(i / 7) ** 2 for i in range(1, 7)]
    assert value.item() == pytest.approx(0.25**2 + 1 + sum(quantiles) / 6, rel=1e-12)
    (grad,) = torch.autograd.grad(value, z)
    terms = regulariser(shape=0.0).terms(z, z)
    (pull,) = torch.autograd.grad(terms["loss"], z)
    torch.testing.assert_close(pull, torch.full_like(z, 2 * 0.25 / (6 * 4)))
    assert grad.isfinite().all()


def test_near_collapse_the_gradient_of_the_deviation_keeps_its_size() -> None:
    z, _ = views(8, 3)
    sizes = []
    for spread in (1e-3, 1e-6, 1e-9):
        leaf = (spread * z).requires_grad_()
        scale = regulariser(shape=0.0, center=0.0)(leaf, leaf)
        sizes.append(torch.autograd.grad(scale, leaf)[0].norm().item())
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-2) and sizes[1] == pytest.approx(sizes[2], rel=1e-5)


def test_the_deviation_that_divides_rows_carries_no_gradient() -> None:
    z1, z2 = views(7, 4)
    objective = hs.create_objective("visreg", num_slices=3).eval()
    leaves = [z.clone().requires_grad_() for z in (z1, z2)]
    grads = torch.autograd.grad(objective(*leaves), leaves)
    fixed = [z.std(dim=0, correction=0).tolist() for z in (z1, z2)]
    directions = objective.directions(4).numpy()

    def value(x: np.ndarray, y: np.ndarray) -> float:
        return ref.visreg(x, y, directions=directions, deviations=fixed)

    for grad, difference in zip(grads, ref.finite_difference(value, z1.numpy(), z2.numpy()), strict=True):
        np.testing.assert_allclose(grad.numpy(), np.asarray(difference), atol=2e-7)


def test_the_order_of_rows_does_not_matter() -> None:
    z1, z2 = views(9, 4)
    objective = regulariser()
    torch.testing.assert_close(objective(z1.flip(0), z2.roll(2, 0)), objective(z1, z2), rtol=1e-12, atol=0)


def test_scale_is_the_squared_and_two_sided_variance_term_of_vicreg() -> None:
    z, _ = views(9, 4)
    narrow = 0.1 * z
    hinges = 1 - narrow.std(dim=0, correction=0)
    torch.testing.assert_close(regulariser(shape=0.0, center=0.0)(narrow, narrow), (hinges**2).mean())
    unbiased = hs.create_objective("vicreg", variance=1.0, eps=1e-12).terms(narrow, narrow)["variance"]
    ratio = math.sqrt(9 / 8)
    torch.testing.assert_close(1 - (1 - unbiased) / ratio, hinges.mean())


def direct(rows: Tensor, columns: Tensor) -> Tensor:
    quantiles = rows.new_tensor([NormalDist().inv_cdf(i / (len(rows) + 1)) for i in range(1, len(rows) + 1)])
    return torch.stack([((rows @ column).sort().values - quantiles).square().mean() for column in columns.T]).mean()


def test_directions_in_several_chunks_are_those_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.objectives.visreg.CHUNK", 30)
    rows, columns = views(9, 4)[0].requires_grad_(), views(4, 7, seed=3)[0]
    value, expected = quantile_distance(rows, columns), direct(rows, columns)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    grads = [torch.autograd.grad(each, rows)[0] for each in (value, expected)]
    torch.testing.assert_close(*grads)
    assert torch.autograd.gradgradcheck(lambda z: quantile_distance(z, columns), rows)


def test_features_that_begin_small_shrink() -> None:
    """Along the rows shape pulls inwards by the same share at any size, since σ has no gradient there, and scale pushes
    outwards by 2σ(1-σ)."""
    z = views(128, 16)[0]
    z = (z - z.mean(dim=0)) / z.std(dim=0, unbiased=False)
    pulls = {}
    for size in (0.3, 0.05, 0.001):
        rows = (size * z).requires_grad_()
        terms = regulariser(num_slices=64).terms(rows, size * z)
        pulls[size], push = (
            (torch.autograd.grad(terms[name], rows, retain_graph=True)[0] * rows).sum().item()
            for name in ("shape", "scale")
        )
        assert push == pytest.approx(-size * (1 - size), rel=1e-6)  # half of it: the other view stays
    assert pulls == pytest.approx(dict.fromkeys(pulls, pulls[0.3]), rel=1e-6)
    assert pulls[0.001] == pytest.approx(0.04 * (1 - 0.04), abs=0.015)  # below a deviation of 0.04 the pull wins
