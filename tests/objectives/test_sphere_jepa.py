"""SPHERE-JEPA: tests of a sample for the uniform law on the sphere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev
from scipy.special import hyp1f1
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import unit
from hypersphere.geometry.zonal import uniform_law
from hypersphere.testing import workers
from hypersphere.testing.example import views


def value(z: Tensor, **params: Any) -> float:
    return hs.create_objective("sphere_jepa", weight=1.0, **params).eval()(z, z).item()


def gradient(objective: hs.objectives.Objective, z: Tensor, part: str = "loss") -> Tensor:
    leaf = z.clone().requires_grad_()
    return torch.autograd.grad(objective.terms(leaf, leaf)[part], leaf)[0]


@pytest.mark.parametrize("kernel", ["heat", "bandlimited", "induced"])
def test_equal_rows_have_1_or_0(kernel: str) -> None:
    same = torch.ones(5, 4, dtype=torch.float64)
    assert value(same, kernel=kernel) == pytest.approx(1) == value(same, kernel=kernel, test="ksd")
    if kernel != "bandlimited":
        assert value(same, kernel=kernel, test="kl") == pytest.approx(0, abs=1e-12)


def test_uniform_rows_have_one_over_their_number_on_average() -> None:
    generator = torch.Generator().manual_seed(0)
    for test in ("mmd", "ksd"):
        values = [value(torch.randn(8, 50, generator=generator), test=test) for _ in range(200)]
        assert sum(values) / len(values) == pytest.approx(1 / 8, rel=0.05)


def test_cutoff_1_is_the_squared_length_of_the_mean() -> None:
    z, _ = views(7, 4)
    for test in ("mmd", "ksd"):
        expected = unit(z).mean(dim=0).square().sum().item()
        assert value(z, kernel="bandlimited", cutoff=1, test=test) == pytest.approx(expected, rel=1e-12)


def test_cutoff_2_is_a_function_of_mean_and_second_moment() -> None:
    z, _ = views(7, 4)
    h, dim = unit(z), 4
    second = (h.T @ h / len(h)).square().sum().item()
    first = h.mean(dim=0).square().sum().item()
    expected = (dim * first + (dim + 2) / 2 * (dim * second - 1)) / (dim + (dim - 1) * (dim + 2) / 2)
    assert value(z, kernel="bandlimited", cutoff=2) == pytest.approx(expected, rel=1e-12)


def test_ksd_is_mmd_with_each_degree_times_its_eigenvalue() -> None:
    """With harmonics of degree 1 and 2 the parts of both follow from cutoff 1 and cutoff 2."""
    z, _ = views(7, 5)
    dim, counts, eigenvalues = 5, (5, 14), (4, 10)
    one = value(z, kernel="bandlimited", cutoff=1)
    both = value(z, kernel="bandlimited", cutoff=2)
    two = (both * sum(counts) - one * counts[0]) / counts[1]
    weights = [count * eigenvalue for count, eigenvalue in zip(counts, eigenvalues, strict=True)]
    expected = (weights[0] * one + weights[1] * two) / sum(weights)
    assert z.shape[1] == dim and value(z, kernel="bandlimited", test="ksd") == pytest.approx(expected, rel=1e-12)


def test_mmd_has_the_gradient_of_an_energy_of_pairs_of_different_rows() -> None:
    """(φ(1) + (N-1) E)/N - C over 1 - C, E the mean over i ≠ j: here with the induced kernel, by its definition."""
    z, _ = views(6, 4)
    h = unit(z)
    cosines = (h @ h.T)[~torch.eye(6, dtype=torch.bool)].numpy()
    nodes, weights = uniform_law(4)
    mean = weights @ hyp1f1(0.5, 2.0, nodes - 1)
    expected = ((1 + 5 * hyp1f1(0.5, 2.0, cosines - 1).mean()) / 6 - mean) / (1 - mean)
    assert value(z, kernel="induced") == pytest.approx(expected, rel=1e-12)


def test_over_all_directions_the_sliced_test_is_the_mmd_of_the_induced_kernel() -> None:
    """N √(2π) (mean k̄ - C) = N √(2π) (1 - C) · mmd; the directions of a circle, and a fine integral."""
    z, _ = views(6, 2)
    objective = hs.create_objective("sphere_jepa", weight=1.0, test="sliced", knots=300, t_max=10.0)
    angles = torch.arange(200, dtype=torch.float64) * math.pi / 200
    objective.directions = lambda dim: torch.stack([angles.cos(), angles.sin()])
    nodes, weights = uniform_law(2)
    mean = weights @ hyp1f1(0.5, 1.0, nodes - 1)
    expected = 6 * math.sqrt(2 * math.pi) * (1 - mean) * value(z, kernel="induced")
    assert objective(z, z).item() == pytest.approx(expected, rel=1e-9)


def test_torch_func_differentiates_the_sliced_test() -> None:
    z1, z2 = views(6, 4)
    objective = hs.create_objective("sphere_jepa", test="sliced", num_slices=3).eval()
    leaf = z1.clone().requires_grad_()
    (expected,) = torch.autograd.grad(objective(leaf, z2), leaf)
    torch.testing.assert_close(torch.func.grad(lambda z: objective(z, z2))(z1), expected)


def test_prediction_of_two_views_is_half_of_1_minus_the_cosine() -> None:
    z1, z2 = views(6, 4)
    expected = (1 - (unit(z1) * unit(z2)).sum(dim=1)).mean() / 2
    for params in ({}, {"test": "sliced", "num_slices": 2}, {"num_global": 2}):
        torch.testing.assert_close(hs.create_objective("sphere_jepa", weight=0.0, **params)(z1, z2), expected)
    apart = hs.create_objective("sphere_jepa", weight=0.0, num_global=1)(z1, z2)  # the first view is the centre
    torch.testing.assert_close(apart, 2 * expected)


@pytest.mark.parametrize("num_global", [None, 2])
def test_each_of_three_views_is_tested_alike_however_it_is_evaluated(num_global: int | None) -> None:
    z = [*views(6, 4), views(6, 4, seed=1)[0]]
    objective = hs.create_objective("sphere_jepa", weight=0.3, num_global=num_global)
    terms = objective.terms(z[0], z[1], views=(z[2],))
    rows = [unit(each) for each in z]
    centre = sum(rows[:num_global]) / len(rows[:num_global])
    torch.testing.assert_close(terms["prediction"], 0.7 * sum((h - centre).square().sum(1).mean() for h in rows) / 3)
    assert terms["regulariser"].item() == pytest.approx(0.3 * sum(value(each) for each in z) / 3)
    with hs.streaming(2):
        streamed = objective.terms(z[0], z[1], views=(z[2],))
    for name, term in terms.items():
        torch.testing.assert_close(streamed[name], term)


def _three_views(z: list[Tensor], start: int, stop: int, params: dict[str, Any]) -> tuple[Tensor, Tensor]:
    leaf = z[0][start:stop].clone().requires_grad_()
    objective = hs.create_objective("sphere_jepa", num_slices=4, gather=True, weight=0.4, **params)
    loss = objective(leaf, z[1][start:stop], views=(z[2][start:stop],))
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


def _on_rank(z: list[Tensor], params: dict[str, Any]) -> tuple[Tensor, Tensor]:
    return _three_views(z, *((0, 3), (3, 7))[torch.distributed.get_rank()], params)


@pytest.mark.parametrize("params", [{}, {"num_global": 2}, {"test": "sliced", "num_global": 2}, {"test": "kl"}])
def test_three_views_on_two_processes_are_those_of_one(params: dict[str, Any]) -> None:
    z = [*views(7, 4), views(7, 4, seed=1)[0]]
    expected, grad = _three_views(z, 0, 7, params)
    results = workers(2).run(_on_rank, z, params)
    for loss, _ in results:
        torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(torch.cat([each for _, each in results]) / 2, grad)


def test_what_it_cannot_use_is_refused() -> None:
    z1, z2 = views(6, 4)
    objective = hs.create_objective("sphere_jepa")
    for name, given in (("ids", torch.arange(6)), ("guide", z1), ("negatives", z1)):
        with pytest.raises(ValueError, match=f"sphere_jepa tests the whole sample: it takes no {name}"):
            objective(z1, z2, **{name: given})
    for name in ("sphere_jepa", "sigreg"):
        with pytest.raises(ValueError, match=f"{name} .*: it takes no in_batch=False"):
            hs.create_objective(name)(z1, z2, in_batch=False)
    with pytest.raises(ValueError, match="bandlimited kernel may be negative"):
        hs.create_objective("sphere_jepa", test="kl", kernel="bandlimited")
    with pytest.raises(ValueError, match="sphere_jepa has num_global=3, but there are 2 views"):
        hs.create_objective("sphere_jepa", num_global=3)(z1, z2)
    with pytest.raises(ValueError, match="at least two dimensions"):
        objective(z1[:, :1], z2[:, :1])
    with pytest.raises(ValueError, match="sphere_jepa tests the whole sample: it has no negatives to mix"):
        hs.create_objective("mixup", base="sphere_jepa")


def with_kernel(monkeypatch: pytest.MonkeyPatch, phi: Callable[[Any], Any], mean: float = 0.0) -> None:
    """Puts a kernel φ of the cosine, with φ(1) = 1 and this mean under the uniform law, in the place of ours."""
    coefficients = chebyshev.chebinterpolate(lambda c: (phi(c) - mean) / (1 - mean), 60)
    name = "hypersphere.objectives.sphere_jepa.sphere_test"
    monkeypatch.setattr(name, lambda *settings: tuple(coefficients.tolist()))


def test_mmd_with_the_kernel_of_kcl_is_its_energy_shifted(monkeypatch: pytest.MonkeyPatch) -> None:
    """((1 + (N-1) E)/N - C)/(1 - C), C = (1 - e^{-4t})/(4t) in three dimensions: (N-1)/N of the gradient of E."""
    z, size, t = views(6, 3)[0], 6, 1.5
    mean = (1 - math.exp(-4 * t)) / (4 * t)
    with_kernel(monkeypatch, lambda c: np.exp(2 * t * (c - 1)), mean)
    kcl = hs.create_objective("kcl", t=t, gamma=1.0)
    energy = kcl.terms(z, z)["energy"].item()
    assert value(z) == pytest.approx(((1 + (size - 1) * energy) / size - mean) / (1 - mean), rel=1e-12)
    ours = gradient(hs.create_objective("sphere_jepa", weight=1.0), z)
    torch.testing.assert_close(
        ours, gradient(kcl, z, "energy") * (size - 1) / size / (1 - mean), rtol=1e-10, atol=1e-13
    )


def test_kl_with_an_exponential_kernel_is_the_energy_of_dhel(monkeypatch: pytest.MonkeyPatch) -> None:
    """φ = e^{(c-1)/τ}: the energy less log(N-1) and 1/τ."""
    z, tau = views(6, 4)[0], 0.4
    with_kernel(monkeypatch, lambda c: np.exp((c - 1) / tau))
    dhel = hs.create_objective("dhel", temperature=tau)
    energy = dhel.terms(z, z)["energy"].item()
    assert value(z, test="kl") == pytest.approx(energy - math.log(5) - 1 / tau, rel=1e-12)
    ours = gradient(hs.create_objective("sphere_jepa", weight=1.0, test="kl"), z)
    torch.testing.assert_close(ours, gradient(dhel, z, "energy"), rtol=1e-10, atol=1e-13)
