"""Gradients beside their closed forms, and values at the aligned simplex beside the smallest ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import simplex, tangent, unit
from hypersphere.testing.example import views
from tests import cases
from tests.theory import (
    Params,
    barlow_gradient,
    gradients,
    own_gradient,
    per_anchor,
    row_softmax,
    without_diagonal,
)

OWN: list[cases.Case] = [
    ("infonce", {"temperature": 0.2}),
    ("dcl", {"temperature": 0.2}),
    ("dcl_plus", {"temperature": 0.2}),
    ("mpt", {"margin": 0.2}),
    ("met", {"margin": 0.3}),
    ("mat", {"margin": 0.2}),
    ("arccon", {"temperature": 0.2, "angle": 0.4}),
]


@pytest.mark.parametrize(("name", "params"), **cases.named(OWN))
def test_an_anchors_own_gradient_has_its_closed_form(name: str, params: Params) -> None:
    stopped = 0
    for seed in range(4):
        h, g = (unit(z) for z in views(6, 4, seed))
        leaf = h.clone().requires_grad_()
        losses = per_anchor(name, leaf, g, **params)
        for i in range(6):
            others = [j for j in range(6) if j != i]
            (grad,) = torch.autograd.grad(losses[i], leaf, retain_graph=True)
            closed = tangent(own_gradient(name, params, h[i], g[i], g[others]), h[i])
            torch.testing.assert_close(tangent(grad[i], h[i]), closed, rtol=1e-9, atol=1e-12)
            assert (grad[others] == 0).all()
            stopped += int((grad[i] == 0).all())
    gated = name in ("dcl_plus", "mpt", "met", "mat")
    assert 0 < stopped < 24 if gated else stopped == 0


def dhel_gradient(h: Tensor, g: Tensor) -> Tensor:
    """(1/τ)( Σ_{j≠i} (q_ij + q_ji) h_j - h'_i ), over N for the mean."""
    q = row_softmax(h @ h.T, 0.3)
    return ((q + q.T) @ h - g) / (0.3 * len(h))


def ntxent_gradient(h: Tensor, g: Tensor) -> Tensor:
    """The negative of (1/τ)[(1-P_i) + (1-P_j(i))] z_j(i) - (1/τ) Σ_a [p_ia + p_ai] z_a, over 2N for the mean."""
    size, z = len(h), torch.cat([h, g])
    p = row_softmax(z @ z.T, 0.5)
    both = p + p.T
    own = torch.arange(size)
    toward = 2 - both[own, own + size]
    both[own, own + size] = 0
    return (both[:size] @ z - toward.unsqueeze(1) * g) / (0.5 * 2 * size)


def cross_align_uniform_gradient(h: Tensor, g: Tensor) -> Tensor:
    """-(1-λ)(α/N)(2-2c_i)^{(α-2)/2} h'_i + λ 2t Σ_{j≠i} e^{2t s_ij} h'_j / Σ_{k≠l} e^{2t s_kl}; α 3, t 2, λ .3."""
    distance = (2 - 2 * (h * g).sum(dim=1, keepdim=True)).sqrt()
    powers = without_diagonal(torch.exp(4 * h @ g.T))
    return -0.7 * 3 / len(h) * distance * g + 0.3 * 4 * powers @ g / powers.sum()


def same_align_uniform_gradient(h: Tensor, g: Tensor) -> Tensor:
    """-(1-λ)(2/N) h'_i + (λ/2) Σ_j 2t e^{2t a_ij} h_j / Σ_{k<l} e^{2t a_kl}: half, as the views are averaged."""
    powers = without_diagonal(torch.exp(4 * h @ h.T))
    return -0.7 * 2 / len(h) * g + 0.3 / 2 * 4 * powers @ h / (powers.sum() / 2)


def mhe_gradient(h: Tensor, g: Tensor) -> Tensor:
    """Σ_j 2ν e^{2a_ij} h_j / Σ_{k<l} e^{2a_kl} - (2/N) h'_i."""
    powers = without_diagonal(torch.exp(2 * h @ h.T))
    return 2 * 10 * powers @ h / (powers.sum() / 2) - 2 / len(h) * g


FULL: list[tuple[str, Params, Callable[[Tensor, Tensor], Tensor]]] = [
    ("dhel", {"temperature": 0.3}, dhel_gradient),
    ("ntxent", {"temperature": 0.5}, ntxent_gradient),
    ("align_uniform", {"pairs": "cross", "alpha": 3.0, "weight": 0.3}, cross_align_uniform_gradient),
    ("align_uniform", {"pairs": "same", "weight": 0.3}, same_align_uniform_gradient),
    ("mhe", {}, mhe_gradient),
    ("barlow", {"normalization": "unit", "weight": 30.0}, barlow_gradient),
]


@pytest.mark.parametrize(("name", "params", "closed"), FULL, ids=[closed.__name__ for *_, closed in FULL])
def test_the_full_gradient_in_the_first_view_has_its_closed_form(
    name: str, params: Params, closed: Callable[[Tensor, Tensor], Tensor]
) -> None:
    h, g = (unit(z) for z in views(6, 4))
    grad, _ = gradients(hs.create_objective(name, **params), h, g)
    torch.testing.assert_close(tangent(grad, h), tangent(closed(h, g), h), rtol=1e-9, atol=1e-12)


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


SIMPLEX_VALUES = [
    ("infonce", {"temperature": 0.3}, lambda n, k: math.log1p((n - 1) * math.exp(-k / 0.3))),
    ("ntxent", {}, lambda n, k: math.log1p(2 * (n - 1) * math.exp(-k / 0.5))),
    ("align_uniform", {"weight": 1.0}, lambda n, k: -4 * k),
    ("kcl", {"gamma": 3.0}, lambda n, k: -1 + 3 * math.exp(-4 * k)),
    ("kcl", {"kernel": "log"}, lambda n, k: -16 * 0.5 * math.log1p(4 * k)),
    ("met", {"margin": 1.5}, lambda n, k: max(0.0, 1.5 - math.sqrt(2 * k))),
]


@pytest.mark.parametrize(("name", "params", "closed"), SIMPLEX_VALUES)
@pytest.mark.parametrize("size", [2, 4, 7])
def test_value_at_the_aligned_simplex_is_the_known_minimum(
    name: str, params: dict[str, Any], closed: Any, size: int
) -> None:
    objective = hs.create_objective(name, **params)
    best = simplex(size, 8)
    assert objective(best, best).item() == pytest.approx(closed(size, size / (size - 1)), abs=1e-6)
    for seed in range(20):
        assert objective(*views(size, 8, seed)).item() >= closed(size, size / (size - 1)) - 1e-6
