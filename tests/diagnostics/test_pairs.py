"""Neighbours, gaps, classes and energy against loops over all pairs, and energy against its known optima."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from hypersphere.diagnostics import pairs, uniformity
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
    neighbours = pairs.neighbours(h, k)
    assert neighbours.occurrences.tolist() == counts.tolist()
    assert neighbours.skewness == pytest.approx(scipy.stats.skew(counts))
    nearest = [max(plain[i] @ plain[j] for j in range(len(plain)) if j != i) for i in range(len(plain))]
    assert neighbours.nearest.tolist() == pytest.approx(nearest)


def test_more_neighbours_than_rows_are_all_the_others():
    neighbours = pairs.neighbours(points(4), 10)
    assert neighbours.indices.shape == (4, 3)
    assert neighbours.occurrences.tolist() == [3, 3, 3, 3] and neighbours.skewness == 0


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
    gap = pairs.gap(h, other)
    assert gap.distance == pytest.approx(np.mean(distance))
    assert gap.hardest == pytest.approx(np.mean(hardest))
    assert gap.first == pytest.approx(np.mean(first)) and 0.1 < gap.first < 0.9
    assert gap.closer == pytest.approx(np.mean(closer))
    assert gap.negative_histogram.sum() == size * (size - 1)


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
    seen = [(i, int(j)) for i in known for j in near.indices[i] if names[int(j)] >= 0]
    agree = [names[i] == names[j] for i, j in seen]
    drawn = [np.mean([names[i] == names[j] for j in known if j != i]) for i, _ in seen]
    classes = pairs.classes(h, labels, near)
    assert (classes.classes, classes.labelled) == (3, len(known))
    assert classes.within == pytest.approx(np.mean(within)) and classes.between == pytest.approx(np.mean(between))
    assert classes.gap == pytest.approx(np.mean(between) - np.mean(within))
    assert classes.agreement == pytest.approx(np.mean(agree)) and classes.chance == pytest.approx(np.mean(drawn))


@pytest.mark.parametrize("size", [2, 4])
def test_small_classes_that_stand_apart_are_not_mixed(size):
    centres = uniform_points(60, 16, 0).repeat_interleave(size, 0)
    h = unit(centres + 1e-3 * uniform_points(len(centres), 16, 1))
    labels = torch.arange(60).repeat_interleave(size)
    classes = pairs.classes(h, labels, pairs.neighbours(h, 10))
    assert classes.agreement == 1 and classes.beyond_chance == 1
    shuffled = labels[torch.randperm(len(h), generator=torch.Generator().manual_seed(0))]
    assert pairs.classes(h, shuffled, pairs.neighbours(h, 10)).beyond_chance < 0.1


def test_classes_of_one_row_each_say_nothing():
    classes = pairs.classes(points(), torch.arange(31), pairs.neighbours(points(), 3))
    assert math.isnan(classes.agreement) and math.isnan(classes.within) and not classes.beyond_chance < 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_copies_are_no_hubs(dtype):
    h = points(200, 16).to(dtype)
    plain = pairs.neighbours(h, 5).skewness
    h[:60] = h[0]
    neighbours = pairs.neighbours(h, 5)
    assert neighbours.occurrences.sum().item() == pytest.approx(5 * 200)
    assert neighbours.occurrences[:60].tolist() == pytest.approx([float(neighbours.occurrences[0])] * 60)
    assert (neighbours.occurrences[:60] >= 5 - 1e-9).all()
    assert neighbours.skewness < plain + 1


def test_a_zero_row_is_at_distance_one_of_the_others():
    h, other = points(), unit(points() + 0.7 * points(seed=1))
    h[[3, 17]], other[[3, 20]] = 0, 0
    plain, views = h.numpy(), other.numpy()
    size = len(plain)
    distances = [max(math.dist(plain[i], plain[j]), pairs.NEAREST_DISTANCE) for i in range(size) for j in range(i)]
    assert pairs.riesz_energy(h) == pytest.approx(np.mean([1 / each for each in distances]))
    assert uniformity(h) == pytest.approx(math.log(np.mean([math.exp(-2 * each**2) for each in distances])))
    far = [[math.dist(plain[i], views[j]) for j in range(size) if j != i] for i in range(size)]
    own = [math.dist(plain[i], views[i]) for i in range(size)]
    gap = pairs.gap(h, other)
    assert gap.distance == pytest.approx(np.mean(far) - np.mean(own))
    assert gap.hardest == pytest.approx(np.mean([min(row) for row in far]) - np.mean(own))


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
