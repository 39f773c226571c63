"""Where objectives are smallest, and where they only stand still."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import cross_polytope, simplex, unit
from hypersphere.testing.example import views
from tests.theory import Params

MINIMA: list[tuple[str, Params, Callable[[int, float], float]]] = [
    ("dcl", {"temperature": 0.3}, lambda n, k: math.log(n - 1) - k / 0.3),
    ("dcl", {"temperature": 0.3, "negatives": "both"}, lambda n, k: math.log(2 * n - 2) - k / 0.3),
    ("dhel", {}, lambda n, k: math.log(n - 1) - k / 0.3),
    ("dhel", {"energy": "symmetric"}, lambda n, k: math.log(n - 1) - k / 0.3),
    ("dhel", {"energy": "both"}, lambda n, k: -1 / 0.3 + 2 * (math.log(n - 1) - 1 / ((n - 1) * 0.3))),
    ("kcl", {}, lambda n, k: -1 + 16 * math.exp(-4 * k)),
    ("kcl", {"views": "both"}, lambda n, k: -2 + 32 * math.exp(-4 * k)),
    ("kcl", {"kernel": "log"}, lambda n, k: -16 * 0.5 * math.log1p(4 * k)),
    ("kcl", {"kernel": "imq"}, lambda n, k: -1 + 16 * 2 / math.sqrt(4 + 2 * k)),
    ("kcl", {"kernel": "riesz", "s": -1.0}, lambda n, k: -16 * math.sqrt(2 * k)),
    ("kcl", {"kernel": "gaussian_riesz", "s": 1.0}, lambda n, k: -1 + 16 / math.sqrt(2 * k)),
    ("kcl", {"kernel": "gaussian_riesz", "s": -1.5}, lambda n, k: -1 - 16 * (2 * k) ** 0.75),
    ("mhe", {}, lambda n, k: -10 * 2 * k),
    ("mhs", {}, lambda n, k: -math.sqrt(2 * k)),
]
MINIMA_IDS = ["-".join([name, *(f"{k}={v}" for k, v in params.items())]) for name, params, _ in MINIMA]


@pytest.mark.parametrize("size", [2, 4, 7])
@pytest.mark.parametrize(("name", "params", "closed"), MINIMA, ids=MINIMA_IDS)
def test_the_aligned_simplex_has_the_smallest_value(
    name: str, params: Params, closed: Callable[[int, float], float], size: int
) -> None:
    objective, best = hs.create_objective(name, **params), simplex(size, 8)
    smallest = closed(size, size / (size - 1))
    clamp = 1.1e-6 if params.get("kernel") == "riesz" else 0  # its alignment keeps distances above 1e-6
    assert objective(best, best).item() == pytest.approx(smallest, rel=1e-12, abs=clamp)
    for seed in range(10):
        assert objective(*views(size, 8, seed)).item() >= smallest
        noise = views(size, 8, seed)
        assert objective(best + 0.05 * noise[0], best + 0.05 * noise[1]).item() > smallest


@pytest.mark.parametrize("weight", [0.0051, 1.0, 30.0])
def test_unit_barlow_cannot_go_below_what_its_trace_allows(weight: float) -> None:
    """The trace of C is the mean cosine ≤ 1, so L ≥ (D-1)²/D, reached at C = I/D."""
    objective = hs.create_objective("barlow", normalization="unit", weight=weight)
    dim = 4
    best = cross_polytope(dim)
    torch.testing.assert_close(best.T @ best / len(best), torch.eye(dim, dtype=torch.float64) / dim)
    assert objective(best, best).item() == pytest.approx((dim - 1) ** 2 / dim, rel=1e-12)
    for seed in range(20):
        assert objective(*views(2 * dim, dim, seed)).item() > (dim - 1) ** 2 / dim


SIGNS = [
    [1, 1, 1, 1, 1, 1],
    [1, 1, -1, 1, 1, -1],
    [1, -1, -1, 1, -1, -1],
    [1, 1, 1, -1, -1, -1],
    [1, 1, 1, 1, 1, -1],
    [1, -1, 1, -1, 1, 1],
]


def ntxent_at_rank_one(signs: list[int], tau: float) -> tuple[Tensor, Tensor]:
    """Gradient and eigenvalues of the Hessian of NT-Xent where all rows of both views are ± one vector."""
    size = len(signs) // 2
    objective = hs.create_objective("ntxent", temperature=tau, reduction="sum")
    direction = unit(torch.tensor([[0.3, -0.5, 0.8]], dtype=torch.float64))
    start = torch.tensor(signs, dtype=torch.float64).unsqueeze(1) * direction

    def loss(z: Tensor) -> Tensor:
        return objective(z[:size], z[size:])

    grad = torch.autograd.functional.jacobian(loss, start)
    hessian = torch.autograd.functional.hessian(loss, start).reshape(start.numel(), start.numel())
    return grad, torch.linalg.eigvalsh(hessian)


@pytest.mark.parametrize("tau", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("signs", SIGNS, ids=["".join("+-"[s < 0] for s in signs) for signs in SIGNS])
def test_every_pattern_of_signs_at_rank_one_is_a_saddle_of_ntxent(signs: list[int], tau: float) -> None:
    grad, curvature = ntxent_at_rank_one(signs, tau)
    assert grad.abs().max() < 1e-9
    assert curvature.min() < -1e-3


def test_two_opposite_instances_are_at_rank_one_and_a_minimum() -> None:
    """The simplex of two points is a line."""
    grad, curvature = ntxent_at_rank_one([1, -1, 1, -1], 0.5)
    assert grad.abs().max() < 1e-9
    assert curvature.min() > -1e-9
