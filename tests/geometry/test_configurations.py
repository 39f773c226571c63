"""Point sets with the smallest energy."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.geometry import cross_polytope, simplex, uniform_points


@settings(deadline=None)
@given(st.integers(2, 9), st.integers(0, 4))
def test_simplex_vertices_have_equal_cosines_and_sum_to_zero(count: int, spare: int) -> None:
    vertices = simplex(count, count - 1 + spare)
    assert vertices.shape == (count, count - 1 + spare)
    gram = torch.full((count, count), -1 / (count - 1), dtype=torch.float64).fill_diagonal_(1)
    torch.testing.assert_close(vertices @ vertices.T, gram)
    torch.testing.assert_close(vertices.sum(dim=0), torch.zeros(vertices.shape[1], dtype=torch.float64))


@pytest.mark.parametrize(("count", "dim"), [(5, 3), (1, 3), (0, 3)])
def test_a_simplex_that_does_not_fit_is_refused(count: int, dim: int) -> None:
    with pytest.raises(ValueError, match=f"2 to {dim + 1} vertices, not {count}"):
        simplex(count, dim)


@settings(deadline=None)
@given(st.integers(1, 8))
def test_every_cross_polytope_vertex_has_one_opposite_and_is_orthogonal_to_the_others(dim: int) -> None:
    vertices = cross_polytope(dim)
    gram = vertices @ vertices.T
    assert vertices.shape == (2 * dim, dim)
    assert torch.equal(gram.diagonal(), torch.ones(2 * dim, dtype=torch.float64))
    assert torch.equal((gram == -1).sum(dim=1), torch.ones(2 * dim, dtype=torch.int64))
    assert torch.equal((gram == 0).sum(dim=1), torch.full((2 * dim,), 2 * dim - 2))


@pytest.mark.parametrize("count", [4, 6])
def test_no_random_set_has_a_smaller_gaussian_energy(count: int) -> None:
    def energy(points: torch.Tensor) -> float:
        return float(torch.exp(4 * points @ points.T).sum())

    best = energy(simplex(4, 3) if count == 4 else cross_polytope(3))
    assert min(energy(uniform_points(count, 3, seed)) for seed in range(200)) > best


def test_uniform_points_are_reproducible_unit_rows_without_a_direction() -> None:
    points = uniform_points(20_000, 3, seed=4)
    assert torch.equal(points, uniform_points(20_000, 3, seed=4))
    assert not torch.equal(points, uniform_points(20_000, 3, seed=5))
    torch.testing.assert_close(points.norm(dim=1), torch.ones(20_000, dtype=torch.float64))
    assert points.mean(dim=0).abs().max() < 0.02
    torch.testing.assert_close(points.T @ points / 20_000, torch.eye(3).double() / 3, atol=0.02, rtol=0)


@pytest.mark.parametrize(
    "make", [lambda d: simplex(3, 4, d), lambda d: cross_polytope(4, d), lambda d: uniform_points(3, 4, 0, d)]
)
def test_the_precision_is_the_callers(make: object) -> None:
    assert callable(make)
    assert make(torch.float32).dtype == torch.float32
