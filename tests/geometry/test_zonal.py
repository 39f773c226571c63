"""Zonal kernels: polynomials, laws and tests on the unit sphere."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import eval_gegenbauer, hyp0f1, hyp1f1

from hypersphere.geometry.zonal import (
    characteristic_function,
    harmonic,
    kummer,
    log_multiplicity,
    polynomial,
    sphere_test,
    uniform_law,
)

COSINES = np.linspace(-1, 1, 9)


@pytest.mark.parametrize("dim", [2, 3, 7, 128])
def test_polynomials_are_those_of_gegenbauer(dim: int) -> None:
    values = harmonic(6, COSINES, dim)
    for degree in range(7):
        if dim == 2:
            expected = np.cos(degree * np.arccos(COSINES))
        else:
            expected = eval_gegenbauer(degree, dim / 2 - 1, COSINES) / eval_gegenbauer(degree, dim / 2 - 1, 1.0)
        np.testing.assert_allclose(values[degree], expected, atol=1e-12)


def test_multiplicities_are_the_dimensions_of_the_spaces_of_harmonics() -> None:
    """Homogeneous polynomials of a degree, less those of two degrees below."""
    for dim in (2, 3, 5, 40):
        for degree in range(6):
            below = math.comb(degree + dim - 3, degree - 2) if degree > 1 else 0
            expected = math.comb(degree + dim - 1, degree) - below
            assert math.exp(log_multiplicity(degree, dim)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 4, 50])
def test_quadrature_has_the_moments_of_a_coordinate_of_a_uniform_vector(dim: int) -> None:
    nodes, weights = uniform_law(dim, 20)
    assert weights.sum() == pytest.approx(1)
    assert weights @ nodes**2 == pytest.approx(1 / dim)
    assert weights @ nodes**4 == pytest.approx(3 / (dim * (dim + 2)))
    t = torch.tensor([0.0, 0.5, 3.0, 20.0], dtype=torch.float64)
    expected = hyp0f1(dim / 2, -(t.numpy() ** 2) / 4)
    np.testing.assert_allclose(characteristic_function(t, dim).numpy(), expected, atol=1e-13)


def test_kummers_function_is_scipys() -> None:
    np.testing.assert_allclose(kummer(0.5, 2.5, COSINES - 1), hyp1f1(0.5, 2.5, COSINES - 1), rtol=1e-14)


@pytest.mark.parametrize("kernel", ["heat", "bandlimited", "induced"])
@pytest.mark.parametrize("dim", [2, 3, 4, 128])
def test_the_pairwise_function_of_a_test_is_1_at_1_and_0_on_average(kernel: str, dim: int) -> None:
    nodes, weights = uniform_law(dim)
    for test in ("mmd", "ksd"):
        values = polynomial(torch.from_numpy(np.append(nodes, 1.0))[None], sphere_test(test, kernel, dim, 5.0, 4))[0]
        assert values[-1].item() == pytest.approx(1, abs=1e-13)
        assert weights @ values[:-1].numpy() == pytest.approx(0, abs=1e-13)


def test_heat_of_a_long_time_is_the_first_harmonic() -> None:
    """Even where its weight e^{-time (D-1)/D} is no number of float64."""
    for test in ("mmd", "ksd"):
        values = polynomial(torch.from_numpy(COSINES)[None], sphere_test(test, "heat", 5, 1e4, 2))
        np.testing.assert_allclose(values[0].numpy(), COSINES, atol=1e-13)


def test_heat_of_a_short_time_is_refused() -> None:
    with pytest.raises(ValueError, match="the heat kernel of time 1e-06 has more than 1000 degrees"):
        sphere_test("mmd", "heat", 4, 1e-6, 2)


@pytest.mark.parametrize("size", [3, 400])
def test_a_polynomial_and_its_derivatives(size: int) -> None:
    """2 T_3 - T_1 + 1/2 = 8c³ - 7c + 1/2."""
    c = torch.linspace(-1, 1, size * size, dtype=torch.float64).reshape(size, size).requires_grad_()
    values = polynomial(c, (0.5, -1.0, 0.0, 2.0))
    torch.testing.assert_close(values, 8 * c**3 - 7 * c + 0.5)
    (grad,) = torch.autograd.grad(values.sum(), c, create_graph=True)
    torch.testing.assert_close(grad, 24 * c**2 - 7)
    torch.testing.assert_close(torch.autograd.grad(grad.sum(), c)[0], 48 * c)


def test_float32_takes_fewer_terms_and_keeps_its_digits() -> None:
    coefficients = sphere_test("mmd", "heat", 128, 5.0, 2)
    c = torch.linspace(-1, 1, 101, dtype=torch.float64)[None]
    torch.testing.assert_close(
        polynomial(c.float(), coefficients).double(), polynomial(c, coefficients), rtol=0, atol=3e-7
    )
