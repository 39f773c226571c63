"""Each measure against plain loops over rows and pairs in numpy, and against known configurations."""

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch

from hypersphere import diagnostics
from hypersphere.diagnostics import measures
from hypersphere.geometry import cross_polytope, simplex, uniform_points


def rows(count=23, dim=5, seed=0):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(count, dim)) * draw.uniform(0.1, 9, size=(count, 1)) + 0.4


def units(z):
    return [row / math.sqrt(sum(x * x for x in row)) for row in z]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(measures, "TILE", 4)  # so that these few rows make several blocks, the last one not full


@pytest.mark.parametrize("alpha", [1, 2, 3])
def test_alignment_is_the_mean_distance_of_pairs(alpha):
    z1, z2 = rows(), rows(seed=1)
    expected = np.mean([math.dist(a, b) ** alpha for a, b in zip(units(z1), units(z2), strict=True)])
    assert diagnostics.alignment(torch.from_numpy(z1), torch.from_numpy(z2), alpha) == pytest.approx(expected, 1e-12)


@pytest.mark.parametrize("t", [0.5, 2, 10])
def test_uniformity_is_over_distinct_pairs(t):
    h = units(rows())
    pairs = [math.exp(-t * math.dist(h[i], h[j]) ** 2) for i in range(len(h)) for j in range(i)]
    uniformity = diagnostics.uniformity(torch.from_numpy(rows()), t)
    assert uniformity == pytest.approx(math.log(np.mean(pairs)), 1e-10)


@pytest.mark.parametrize("count", [2, 4, 5, 8, 9])
def test_uniformity_of_a_simplex_is_its_known_minimum(count):
    assert diagnostics.uniformity(simplex(count, 9)) == pytest.approx(-4 * count / (count - 1), 1e-10)


def test_uniformity_of_one_point_is_zero_and_stays_finite_for_a_large_t():
    assert diagnostics.uniformity(torch.ones(9, 3)) == pytest.approx(0, abs=1e-5)
    assert diagnostics.uniformity(torch.eye(6), t=5000) == pytest.approx(-10000)


@pytest.mark.parametrize("count", [4, 23])  # fewer rows than dimensions, and more
def test_cosines_of_negatives_need_no_pairs(count):
    z1, z2 = rows(count), rows(count, seed=1)
    h1, h2 = units(z1), units(z2)
    negative = [np.dot(h1[i], h2[j]) for i in range(count) for j in range(count) if i != j]
    cosines = diagnostics.cosines(torch.from_numpy(z1), torch.from_numpy(z2))
    assert cosines.positive.tolist() == pytest.approx([np.dot(a, b) for a, b in zip(h1, h2, strict=True)])
    assert cosines.negative_mean == pytest.approx(np.mean(negative))
    assert cosines.negative_std == pytest.approx(np.std(negative))


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("count", [4, 5, 23])
def test_singular_values_are_those_of_a_decomposition(count, centre):
    h = np.array(units(rows(count)))
    expected = scipy.linalg.svdvals(h - h.mean(axis=0) if centre else h)
    values = diagnostics.singular_values(torch.from_numpy(rows(count)), centre)
    np.testing.assert_allclose(values, expected, atol=1e-7)


@pytest.mark.parametrize("count", [4, 23])
def test_effective_rank_is_the_exponential_entropy_of_singular_values(count):
    sigma = scipy.linalg.svdvals(np.array(units(rows(count))))
    expected = math.exp(scipy.stats.entropy(sigma))
    assert diagnostics.effective_rank(torch.from_numpy(rows(count))) == pytest.approx(expected, 1e-6)


def test_participation_ratio_is_of_the_covariance():
    values = scipy.linalg.eigvalsh(np.cov(np.array(units(rows())).T))
    expected = values.sum() ** 2 / (values**2).sum()
    assert diagnostics.participation_ratio(torch.from_numpy(rows())) == pytest.approx(expected, 1e-9)


def test_total_variance_is_the_sum_over_dimensions():
    expected = np.var(np.array(units(rows())), axis=0).sum()
    assert diagnostics.total_variance(torch.from_numpy(rows())) == pytest.approx(expected, 1e-12)


def test_known_configurations_use_the_dimensions_they_use():
    assert diagnostics.effective_rank(cross_polytope(7)) == pytest.approx(7)
    assert diagnostics.participation_ratio(simplex(6, 9)) == pytest.approx(5)  # a simplex spans one dimension less
    line = torch.tensor([[1.0], [-2.0], [3.0]]) @ torch.randn(1, 8, generator=torch.Generator().manual_seed(0))
    assert diagnostics.effective_rank(line) == pytest.approx(1, abs=1e-3)
    assert diagnostics.total_variance(torch.ones(5, 3)) == pytest.approx(0, abs=1e-6)
    assert diagnostics.effective_rank(torch.ones(5, 3), centre=True) >= 1


def test_lengths_do_not_matter():
    z = torch.from_numpy(rows())
    stretched = z * torch.linspace(1e-6, 1e6, len(z)).unsqueeze(1)
    for measure in ("uniformity", "effective_rank", "participation_ratio", "total_variance"):
        one, other = (getattr(diagnostics, measure)(each) for each in (z, stretched))
        assert one == pytest.approx(other, 1e-5)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)])
def test_half_precision_is_measured_in_float32(dtype, tolerance):
    z = uniform_points(64, 16)
    assert diagnostics.uniformity(z.to(dtype)) == pytest.approx(diagnostics.uniformity(z), tolerance)
    assert diagnostics.effective_rank(z.to(dtype)) == pytest.approx(diagnostics.effective_rank(z), tolerance)


def test_wrong_shapes_get_one_sentence():
    with pytest.raises(ValueError, match=r"one shape \(N, D\), not \(3, 2\) and \(4, 2\)"):
        diagnostics.alignment(torch.ones(3, 2), torch.ones(4, 2))
    with pytest.raises(ValueError, match="at least two rows"):
        diagnostics.uniformity(torch.ones(1, 2))
    with pytest.raises(ValueError, match="NaN or Inf in 1 of 2 rows"):
        diagnostics.uniformity(torch.tensor([[1.0, 2.0], [math.nan, 1.0]]))


def test_a_small_spread_is_more_than_rounding():
    z = 1 + 1e-4 * torch.from_numpy(rows(500, 8))
    assert measures.participation_ratio(z) > 3
