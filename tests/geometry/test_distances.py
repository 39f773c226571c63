"""Cosine, chord, angle and tangent part."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hypersphere.geometry import angle, chord, cosine, tangent, uniform_points

DTYPES = [torch.float32, torch.float64]
MEASURES = [chord, angle]


@settings(deadline=None)
@given(st.floats(-0.999, 0.999))
def test_gradients_equal_finite_differences(cos: float) -> None:
    step = 1e-6
    for measure in MEASURES:
        at = torch.tensor([cos - step, cos, cos + step], dtype=torch.float64, requires_grad=True)
        value = measure(at)
        (grad,) = torch.autograd.grad(value[1], at)
        below, _, above = value.tolist()
        assert float(grad[1]) == pytest.approx((above - below) / (2 * step), rel=1e-5)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("cos", [-1.0 - 1e-6, -1.0, 1.0, 1.0 + 1e-6])
def test_at_and_beyond_the_ends_value_and_gradient_are_finite(
    measure: Callable[[Tensor], Tensor], dtype: torch.dtype, cos: float
) -> None:
    at = torch.tensor(cos, dtype=dtype, requires_grad=True)
    value = measure(at)
    (grad,) = torch.autograd.grad(value, at)
    assert value.isfinite()
    assert grad.isfinite()


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_coincident_points_are_near_zero_apart_and_push_nothing(
    measure: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    at = torch.ones(3, dtype=dtype, requires_grad=True)
    value = measure(at)
    (grad,) = torch.autograd.grad(value.sum(), at)
    assert value.max() < 1e-3
    assert grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("measure", MEASURES)
def test_nearly_coincident_points_still_push(measure: Callable[[Tensor], Tensor]) -> None:
    at = torch.tensor(1 - 1e-9, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(measure(at), at)
    assert grad < -1e3


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(2, 6))
def test_chord_and_angle_are_the_distances_of_the_points_themselves(seed: int, dim: int) -> None:
    points = uniform_points(2, dim, seed)
    cos = cosine(points, points)[0, 1]
    apart = float((points[0] - points[1]).norm())
    assert float(chord(cos)) == pytest.approx(apart, rel=1e-6)
    assert float(angle(cos)) == pytest.approx(2 * math.asin(min(apart / 2, 1.0)), rel=1e-6)


def test_a_margin_keeps_the_angle_away_from_its_ends() -> None:
    ends = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    assert angle(ends, margin=0.5).tolist() == pytest.approx([2 * math.pi / 3, math.pi / 3])


def test_cosine_does_not_depend_on_lengths() -> None:
    a, b = uniform_points(3, 4, 0), uniform_points(5, 4, 1)
    torch.testing.assert_close(cosine(7 * a, 1e-3 * b), a @ b.T)


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(1, 6))
def test_the_tangent_part_is_orthogonal_and_idempotent_and_leaves_the_rest_along_the_point(seed: int, dim: int) -> None:
    at, vectors = uniform_points(4, dim, seed), 3 * uniform_points(4, dim, seed + 1)
    flat = tangent(vectors, at)
    torch.testing.assert_close((flat * at).sum(dim=1), torch.zeros(4, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(tangent(flat, at), flat)
    along = vectors - flat
    torch.testing.assert_close(tangent(along, at), torch.zeros_like(at), atol=1e-12, rtol=0)
