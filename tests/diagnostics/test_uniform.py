"""The cosine of two uniform points against scipy's beta distribution, and the distance to it against scipy's."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

from hypersphere.diagnostics.uniform import UniformCosine, riesz_energy_of_uniform
from hypersphere.geometry import uniform_points

DIMS = [2, 3, 4, 10, 128, 768, 4096]


def half(dim):
    return (dim - 1) / 2  # x = 2b - 1 with b from Beta(a, a)


@pytest.mark.parametrize("dim", DIMS)
def test_distribution_is_the_incomplete_beta_function(dim):
    x = np.linspace(-1, 1, 4001)
    expected = scipy.special.betainc(half(dim), half(dim), (x + 1) / 2)
    np.testing.assert_allclose(UniformCosine(dim).cdf(torch.from_numpy(x)), expected, atol=1e-11)


@pytest.mark.parametrize("dim", DIMS)
def test_quantiles_are_those_of_the_beta_distribution(dim):
    levels = np.concatenate([[0, 1e-12, 1e-6, 0.5, 1 - 1e-6, 1], np.random.default_rng(0).random(2000)])
    expected = 2 * scipy.stats.beta.ppf(levels, half(dim), half(dim)) - 1
    np.testing.assert_allclose(UniformCosine(dim).quantile(torch.from_numpy(levels)), expected, atol=1e-8)


@pytest.mark.parametrize("dim", [2, 3, 16, 768])
@pytest.mark.parametrize("spread", [0.01, 0.2, 3.0])  # narrower, alike, wider than uniform; the last one beyond [-1, 1]
def test_wasserstein_is_the_integral_between_the_distributions(dim, spread):
    cosines = np.random.default_rng(0).normal(0.05, spread, 60).clip(-1, 1)
    x = np.sort(np.concatenate([np.linspace(-1, 1, 200_001), cosines]))
    middle = (x[1:] + x[:-1]) / 2
    empirical = np.searchsorted(np.sort(cosines), middle, side="right") / len(cosines)
    expected = np.sum(np.abs(empirical - scipy.special.betainc(half(dim), half(dim), (middle + 1) / 2)) * np.diff(x))
    assert UniformCosine(dim).wasserstein(torch.from_numpy(cosines)) == pytest.approx(expected, abs=1e-7)


def test_wasserstein_agrees_with_scipy_on_quantiles():
    cosines = np.random.default_rng(1).normal(0.1, 0.1, 500).clip(-1, 1)
    levels = (np.arange(200_000) + 0.5) / 200_000
    against = 2 * scipy.stats.beta.ppf(levels, half(64), half(64)) - 1
    expected = scipy.stats.wasserstein_distance(cosines, against)
    assert UniformCosine(64).wasserstein(torch.from_numpy(cosines)) == pytest.approx(expected, abs=1e-6)


def test_wasserstein_known_values():
    for dim in (3, 50):  # all cosines 1: the distance is E[1 - x] = 1; all 0: E|x|
        uniform = UniformCosine(dim)
        assert uniform.wasserstein(torch.ones(7)) == pytest.approx(1)
        size = math.exp(math.lgamma(dim / 2) - math.lgamma((dim + 1) / 2)) / math.sqrt(math.pi)
        assert uniform.wasserstein(torch.zeros(7)) == pytest.approx(size)
    assert UniformCosine(3).wasserstein(torch.linspace(-1, 1, 20_001)) < 1e-4


@pytest.mark.parametrize("dim", [4, 20, 768])
def test_riesz_energy_of_the_uniform_measure_is_its_mean(dim):
    expected = scipy.stats.beta(half(dim), half(dim)).expect(lambda b: 1 / np.sqrt(2 - 2 * (2 * b - 1)))
    assert riesz_energy_of_uniform(dim) == pytest.approx(expected, 1e-6)
    assert UniformCosine(dim).mean(lambda x: (2 - 2 * x).rsqrt()) == pytest.approx(expected, 1e-6)


def test_riesz_energy_on_the_circle_is_infinite():
    assert math.isinf(riesz_energy_of_uniform(2))


def test_points_drawn_uniformly_have_these_cosines():
    points = uniform_points(20_000, 12)
    cosines = (points[::2] * points[1::2]).sum(dim=1)
    assert (
        scipy.stats.kstest(cosines.numpy(), lambda x: UniformCosine(12).cdf(torch.from_numpy(x)).numpy()).pvalue > 0.01
    )


def test_one_dimension_is_no_sphere():
    with pytest.raises(ValueError, match="at least 2 dimensions, not 1"):
        UniformCosine(1)


@pytest.mark.parametrize(("dim", "offset"), [(2, 0.0), (128, 0.3)])
def test_the_streamed_distance_is_the_sorted_one(dim, offset):
    """Uniform rows cross the uniform distribution in many bins, rows in a cone in few."""
    h = uniform_points(700, dim) + offset
    cosines = torch.nn.functional.normalize(h.double()) @ torch.nn.functional.normalize(h.double()).T
    cosines = cosines[torch.ones_like(cosines, dtype=torch.bool).triu(1)]
    uniform = UniformCosine(dim)
    sorted_one = uniform.wasserstein(cosines)
    assert uniform.wasserstein_streamed(cosines.split(50_000)) == pytest.approx(sorted_one, rel=1e-6, abs=1e-9)
