"""Neighbours, gaps, classes and energy against loops over all pairs, and energy against its known optima."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from hypersphere.diagnostics import pairs
from hypersphere.geometry import cross_polytope, simplex, uniform_points, unit


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(pairs, "ROWS", 5)


def points(count=31, dim=4, seed=0):
    return uniform_points(count, dim, seed)


def test_neighbours_and_hubness_are_those_of_a_loop():
    h, k = points(), 3
    plain = h.numpy()
    counts = np.zeros(len(plain))
    for i in range(len(plain)):
        others = sorted((j for j in range(len(plain)) if j != i), key=lambda j: -plain[i] @ plain[j])
        counts[others[:k]] += 1
    found = pairs.neighbours(h, k)
    assert found.occurrences.tolist() == counts.tolist()
    assert found.skewness == pytest.approx(scipy.stats.skew(counts))
    nearest = [max(plain[i] @ plain[j] for j in range(len(plain)) if j != i) for i in range(len(plain))]
    assert found.nearest.tolist() == pytest.approx(nearest)


def test_more_neighbours_than_rows_are_all_the_others():
    found = pairs.neighbours(points(4), 10)
    assert found.places.shape == (4, 3)
    assert found.occurrences.tolist() == [3, 3, 3, 3] and found.skewness == 0


def test_gap_is_that_of_a_loop():
    h = points()
    other = unit(h + 0.7 * points(seed=1))
    plain, views = h.numpy(), other.numpy()
    size = len(plain)
    distance, hardest, first, closer = [], [], [], []
    for i in range(size):
        own = math.dist(plain[i], views[i])
        rest = [math.dist(plain[i], views[j]) for j in range(size) if j != i]
        distance.append(np.mean(rest) - own)
        hardest.append(min(rest) - own)
        first.append(own < min(rest))
        closer.append(np.mean([own < each for each in rest]))
    found = pairs.gap(h, other)
    assert found.distance == pytest.approx(np.mean(distance))
    assert found.hardest == pytest.approx(np.mean(hardest))
    assert found.first == pytest.approx(np.mean(first)) and 0.1 < found.first < 0.9
    assert found.closer == pytest.approx(np.mean(closer))
    assert found.negative_histogram.sum() == size * (size - 1)


def test_equal_rows_are_guessing():
    same = unit(torch.ones(9, 3, dtype=torch.float64))
    assert pairs.gap(same, same).closer == 0.5
    assert pairs.gap(same, same).first == 0


def test_classes_are_those_of_a_loop():
    h = points()
    labels = torch.arange(len(h)) % 4 - 1  # -1, 0, 1, 2
    near = pairs.neighbours(h, 3)
    plain, names = h.numpy(), labels.tolist()
    known = [i for i in range(len(plain)) if names[i] >= 0]
    both = [(i, j) for i in known for j in known if i != j]
    within = [math.dist(plain[i], plain[j]) for i, j in both if names[i] == names[j]]
    between = [math.dist(plain[i], plain[j]) for i, j in both if names[i] != names[j]]
    agree = [names[i] == names[int(j)] for i in known for j in near.places[i] if names[int(j)] >= 0]
    found = pairs.classes(h, labels, near)
    assert (found.classes, found.labelled) == (3, len(known))
    assert found.within == pytest.approx(np.mean(within)) and found.between == pytest.approx(np.mean(between))
    assert found.gap == pytest.approx(np.mean(between) - np.mean(within))
    assert found.agreement == pytest.approx(np.mean(agree)) and found.chance == pytest.approx(len(within) / len(both))


def test_energy_is_the_mean_inverse_distance():
    plain = points().numpy()
    expected = np.mean([1 / math.dist(plain[i], plain[j]) for i in range(len(plain)) for j in range(i)])
    assert pairs.riesz_energy(points()) == pytest.approx(expected)


@pytest.mark.parametrize("best", [simplex(2, 5), simplex(4, 5), simplex(6, 5), cross_polytope(3), cross_polytope(40)])
def test_best_configurations_reach_the_least_energy(best):
    least, name = pairs.least_energy(*best.shape)
    assert pairs.riesz_energy(best) == pytest.approx(least)
    assert name in ("regular simplex", "cross-polytope")
    assert pairs.riesz_energy(uniform_points(*best.shape)) > least + 1e-4


def test_a_regular_polygon_has_the_least_energy_on_the_circle():
    angles = torch.arange(7, dtype=torch.float64) * 2 * math.pi / 7
    polygon = torch.stack([angles.cos(), angles.sin()], dim=1)
    assert pairs.least_energy(7, 2) == (pytest.approx(pairs.riesz_energy(polygon)), "regular polygon")


def test_many_uniform_points_have_the_uniform_energy():
    least, name = pairs.least_energy(3000, 16)
    assert name == "uniform measure"
    assert pairs.riesz_energy(uniform_points(3000, 16)) == pytest.approx(least, 2e-3)


def test_energy_of_equal_points_is_large_but_finite():
    assert math.isfinite(pairs.riesz_energy(unit(torch.ones(3, 2))))
