"""Wasserstein distance to a Gaussian, MMCR and FroSSL: known values, bounds, and gradients where they have kinks."""

from __future__ import annotations

import math

import pytest
import torch

import hypersphere as hs
from hypersphere.geometry import cross_polytope, unit
from hypersphere.objectives.spectrum import nuclear_norm
from hypersphere.testing.example import views


def test_wasserstein_is_0_for_the_covariance_of_the_uniform_law_and_root_2_for_equal_rows() -> None:
    objective = hs.create_objective("wasserstein")
    best = cross_polytope(4)
    assert objective(best, best).item() < 1e-7
    same = best[:1].expand(6, 4)
    assert objective(same, same).item() == pytest.approx(math.sqrt(2), rel=1e-14)
    for seed in range(5):
        assert 0 < objective(*views(6, 4, seed)).item() < math.sqrt(2)


def test_wasserstein_has_finite_gradients_where_rows_leave_dimensions_empty() -> None:
    """Three rows in five dimensions: at least two dimensions have no variance, and rows move within the others."""
    z = views(3, 5)[0].requires_grad_()
    value = hs.create_objective("wasserstein")(z, z)
    (grad,) = torch.autograd.grad(value, z)
    span = torch.linalg.qr(z.detach().T).Q
    torch.testing.assert_close(grad @ span @ span.T, grad)
    assert grad.abs().max() > 1e-3


def test_wasserstein_stacks_all_views() -> None:
    (z1, z2), z3 = views(6, 4), views(6, 4, seed=1)[0]
    objective = hs.create_objective("wasserstein")
    again = objective(z1, z2, views=(z1, z2))  # the same rows twice have the same mean and covariance
    torch.testing.assert_close(again, objective(z1, z2))
    assert objective(z1, z2, views=(z3,)) == objective(z3, z1, views=(z2,))


def test_the_nuclear_norm_of_two_views_of_an_instance_follows_from_their_cosine() -> None:
    z1, z2 = views(6, 4)
    c = (unit(z1) * unit(z2)).sum(dim=1)
    spread = hs.create_objective("mmcr", weight=1.0).terms(z1, z2)["spread"]
    torch.testing.assert_close(spread, ((1 + c).sqrt() + (1 - c).sqrt()).mean())
    three = torch.stack([unit(z1), unit(z2), unit(z2)], dim=1)
    spread = hs.create_objective("mmcr", weight=1.0).terms(z1, z2, views=(z2,))["spread"]
    torch.testing.assert_close(spread, torch.linalg.matrix_norm(three, ord="nuc").mean())


def test_mmcr_is_bounded_by_orthonormal_and_by_equal_rows() -> None:
    objective = hs.create_objective("mmcr")
    best, same = torch.eye(5, dtype=torch.float64), torch.ones(5, 5, dtype=torch.float64)
    assert objective(best, best).item() == pytest.approx(-5)
    assert objective(same, same).item() == pytest.approx(-math.sqrt(5))
    for size in (3, 5, 12):
        assert objective(*views(size, 5)).item() > -math.sqrt(size * min(size, 5))


def test_a_zero_row_adds_nothing_to_the_nuclear_norm_of_its_instance() -> None:
    z1, z2 = views(2, 4)
    z1[0] = 0
    spread = hs.create_objective("mmcr", weight=1.0).terms(z1, z2)["spread"]
    c = (unit(z1) * unit(z2)).sum(dim=1)[1].item()
    assert spread.item() == pytest.approx((1 + math.sqrt(1 + c) + math.sqrt(1 - c)) / 2)


def test_frossl_does_not_see_the_length_of_a_feature() -> None:
    z1, z2 = views(9, 4)
    lengths = torch.tensor([1e-3, 1.0, 5.0, 1e4], dtype=torch.float64)
    objective = hs.create_objective("frossl")
    torch.testing.assert_close(objective(z1 * lengths, z2 * lengths.flip(0)), objective(z1, z2))


@pytest.mark.parametrize("size", [3, 4, 9])
def test_the_entropy_of_frossl_is_bounded_by_collapsed_and_by_orthogonal_features(size: int) -> None:
    objective = hs.create_objective("frossl")
    assert -2 * math.log(min(size, 4)) < objective.terms(*views(size, 4))["entropy"].item() < 0
    column = views(size, 1)[0].expand(size, 4)
    assert objective(column, column).item() == pytest.approx(0, abs=1e-14)
    best = torch.eye(size, 4, dtype=torch.float64)
    if size >= 4:
        assert objective(best, best).item() == pytest.approx(-2 * math.log(4))


def test_zero_features_have_a_value_and_no_gradient() -> None:
    zero = torch.zeros(5, 3, requires_grad=True)
    for name, value in (("frossl", 0.0), ("mmcr", 0.0), ("wasserstein", 1.0)):
        loss = hs.create_objective(name)(zero, zero)
        assert loss.item() == pytest.approx(value, abs=1e-7) and not torch.autograd.grad(loss, zero)[0].any()


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (5, 3, 4)])
def test_the_nuclear_norm_in_float32_has_the_digits_of_float32(shape: tuple[int, ...]) -> None:
    matrix = views(math.prod(shape), 1)[0].reshape(shape)
    matrix[..., -1, :] = matrix[..., 0, :]  # a singular value of 0
    expected = torch.linalg.matrix_norm(matrix, ord="nuc")
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    polar = (left * (values > 1e-10).unsqueeze(-2)) @ right
    for dtype, digits in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        leaf = matrix.to(dtype).requires_grad_()
        norm = nuclear_norm(leaf)
        torch.testing.assert_close(norm.double(), expected, rtol=digits, atol=0)
        (grad,) = torch.autograd.grad(norm.sum(), leaf)
        torch.testing.assert_close(grad.double(), polar, rtol=0, atol=digits)


def test_gradients_can_be_differentiated() -> None:
    matrix = views(4, 3)[0].requires_grad_()
    assert torch.autograd.gradgradcheck(nuclear_norm, matrix)
    z1, z2 = (z.requires_grad_() for z in views(4, 3))
    assert torch.autograd.gradgradcheck(hs.create_objective("frossl"), (z1, z2))
