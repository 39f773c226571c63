"""Rows of length one, whatever comes in."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import forward_ad

from hypersphere.geometry import normalize, require_finite, unit


def rows(seed: int, count: int = 4, dim: int = 5, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@settings(deadline=None)
@given(st.integers(0, 1000), st.floats(-30, 37), st.integers(1, 8))
def test_rows_of_any_size_have_length_one_and_keep_their_direction(seed: int, power: float, dim: int) -> None:
    z = rows(seed, dim=dim, dtype=torch.float32)
    z = z / z.abs().amax(dim=1, keepdim=True)
    h = unit(z * 10**power)
    torch.testing.assert_close(h.norm(dim=1), torch.ones(4))
    torch.testing.assert_close(h, unit(z), rtol=1e-5, atol=1e-6)


def test_a_float16_row_has_a_direction_from_its_smallest_normal_number_on() -> None:
    z = torch.tensor([[6.2e-5, 0.0], [6.0e-5, 0.0], [6e-8, 1e-4]], dtype=torch.float16)
    torch.testing.assert_close(unit(z), torch.tensor([[1.0, 0.0], [0.0, 0.0], [6e-4, 1.0]]), rtol=1e-2, atol=1e-6)
    assert unit(z.bfloat16()).norm(dim=1).min() > 0.99  # whose exponents are those of float32


@settings(deadline=None)
@given(st.integers(0, 1000), st.lists(st.integers(-25, 25), min_size=4, max_size=4))
def test_the_gradient_is_tangent_and_shrinks_with_the_norm(seed: int, powers: list[int]) -> None:
    size = 10.0 ** torch.tensor(powers, dtype=torch.float64).unsqueeze(1)
    z, grad = rows(seed) * size, rows(seed + 1)
    z.requires_grad_()
    h = unit(z)
    (grad_z,) = torch.autograd.grad(h, z, grad)
    expected = (grad - h * (grad * h).sum(dim=1, keepdim=True)) / z.norm(dim=1, keepdim=True)
    torch.testing.assert_close(grad_z * size, (expected * size).detach())


def test_a_zero_row_stays_zero_and_receives_no_gradient() -> None:
    z = rows(0)
    z[2] = 0
    z.requires_grad_()
    h, inverse = normalize(z)
    (grad,) = torch.autograd.grad((h * rows(1)).sum(), z)
    assert torch.equal(h[2], torch.zeros(5, dtype=torch.float64))
    assert inverse[2] == 0
    assert torch.equal(grad[2], torch.zeros(5, dtype=torch.float64))
    assert grad[[0, 1, 3]].abs().min() > 0
    torch.testing.assert_close(h[[0, 1, 3]], unit(z)[[0, 1, 3]])


def test_a_zero_row_does_not_change_its_neighbours() -> None:
    z = rows(0)
    with_zero = z.clone()
    with_zero[1] = 0
    torch.testing.assert_close(unit(with_zero)[[0, 2, 3]], unit(z)[[0, 2, 3]])


@pytest.mark.parametrize("size", [1e-40, 1e-32])
def test_a_row_too_small_for_its_inverse_norm_counts_as_zero(size: float) -> None:
    z = torch.tensor([[size, 0.0], [3.0, 4.0]], requires_grad=True)
    h = unit(z)
    h.sum().backward()
    assert h[0].tolist() == [0.0, 0.0]
    assert z.grad is not None
    assert z.grad[0].tolist() == [0.0, 0.0]


def test_a_tiny_row_is_normalised_like_any_other() -> None:
    z = torch.tensor([[3e-25, 4e-25], [3.0, 4.0]], requires_grad=True)
    h = unit(z)
    torch.testing.assert_close(h, torch.tensor([[0.6, 0.8], [0.6, 0.8]]))
    (grad,) = torch.autograd.grad(h, z, torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    torch.testing.assert_close(grad[0] * 1e-25, grad[1])


def test_a_huge_row_neither_overflows_nor_loses_its_gradient() -> None:
    largest = torch.finfo(torch.float32).max
    z = torch.tensor([[largest, largest], [3.0, 4.0]], requires_grad=True)
    h, inverse = normalize(z)
    torch.testing.assert_close(h[0], torch.full((2,), 0.5**0.5))
    assert inverse.isfinite().all()
    (grad,) = torch.autograd.grad(h[:, 0].sum(), z)
    assert grad.isfinite().all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_inf_are_named_with_their_rows(bad: float) -> None:
    z = torch.ones(8, 3)
    z[1, 2] = z[5, 0] = bad
    with pytest.raises(ValueError, match=r"views holds NaN or Inf in 2 of 8 rows \(row 1, 5\)"):
        normalize(z, "views")


def test_of_many_bad_rows_the_first_five_are_named() -> None:
    with pytest.raises(ValueError, match=r"in 9 of 9 rows \(row 0, 1, 2, 3, 4, …\)"):
        normalize(torch.full((9, 2), float("nan")))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_rows_must_be_floating_point(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=f"must hold floating point numbers, not {dtype}"):
        unit(torch.ones(2, 2, dtype=dtype))


@pytest.mark.parametrize(
    ("given_dtype", "kept"),
    [(torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float64, torch.float64)],
)
def test_half_precision_is_computed_in_float32(given_dtype: torch.dtype, kept: torch.dtype) -> None:
    h = unit(torch.full((2, 3), 200.0, dtype=given_dtype))  # 3·200² overflows float16
    assert h.dtype == kept
    torch.testing.assert_close(h, torch.full((2, 3), 3**-0.5, dtype=kept))


def test_the_inverse_norms_are_those_of_the_rows() -> None:
    for size in (1.0, 1e20):
        z = rows(0) * size
        torch.testing.assert_close(normalize(z)[1], 1 / z.norm(dim=1, keepdim=True))


def test_no_rows_are_no_rows() -> None:
    h, inverse = normalize(torch.empty(0, 3))
    assert h.shape == (0, 3)
    assert inverse.shape == (0, 1)


def test_finite_rows_may_be_too_large_to_add_up() -> None:
    require_finite(torch.full((4, 4), 3e38), "views")
    with pytest.raises(ValueError, match="1 of 2 rows"):  # whose sum is NaN
        require_finite(torch.tensor([[1.0, 2.0], [torch.inf, -torch.inf]]), "views")


def test_it_can_be_differentiated_in_every_way() -> None:
    z = rows(3).requires_grad_()
    assert torch.autograd.gradcheck(unit, (z,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(unit, (z,), check_batched_grad=True)
    expected = torch.autograd.functional.hessian(lambda x: ((x / x.norm(dim=1, keepdim=True)) ** 3).sum(), z.detach())
    forward, reverse = torch.func.jacfwd, torch.func.jacrev
    for first, second in ((forward, reverse), (reverse, forward), (reverse, reverse), (forward, forward)):
        torch.testing.assert_close(first(second(lambda x: (unit(x) ** 3).sum()))(z.detach()), expected)


@pytest.mark.parametrize("inside", [True, False])
def test_forward_mode_goes_through_its_gradient(inside: bool) -> None:
    """Forward over reverse, the graph being built where forward mode looks on, and where it does not."""
    z, direction = rows(3), rows(3).flip(1)
    weights = torch.linspace(0.1, 1, z.numel(), dtype=z.dtype).view_as(z)
    plain = torch.func.grad(lambda x: (weights * (x / x.norm(dim=1, keepdim=True)) ** 3).sum())
    expected = torch.func.jvp(plain, (z,), (direction,))[1]
    leaf = z.clone().requires_grad_()
    outside = unit(leaf)
    with forward_ad.dual_level():
        if inside:
            dual = forward_ad.make_dual(leaf, direction)
            (grad,) = torch.autograd.grad((weights * unit(dual) ** 3).sum(), dual)
            torch.testing.assert_close(forward_ad.unpack_dual(grad).tangent, expected)
        else:  # linear in what comes from above
            above = forward_ad.make_dual(weights, weights.flip(0))
            (grad,) = torch.autograd.grad(outside, leaf, above)
            (linear,) = torch.autograd.grad(unit(leaf), leaf, weights.flip(0))
            torch.testing.assert_close(forward_ad.unpack_dual(grad).tangent, linear)
