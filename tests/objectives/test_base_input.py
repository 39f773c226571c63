"""Difficult input gets a finite value and gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import some_labels, views
from tests import cases
from tests.theory import Params


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.ALL))
def test_degenerate_rows_are_survived_densely_and_streaming(name: str, params: dict[str, Any]) -> None:
    objective = hs.create_objective(name, **params)
    hs.testing.assert_survives(objective)
    with hs.streaming(2):
        hs.testing.assert_survives(objective)


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.ALL))
def test_float16_rows_without_a_normal_number_count_as_zero(name: str, params: dict[str, Any]) -> None:
    """The inverse of their length, and so their gradient, would be beyond float16."""
    objective = hs.create_objective(name, **params)
    for rows in (hs.dense(), hs.streaming(2)):
        z1, z2 = ((z * 6e-8).half().requires_grad_() for z in views(6, 4))
        with rows:
            value = objective(z1, z2, some_labels(6))
            zero = objective(torch.zeros(6, 4), torch.zeros(6, 4), some_labels(6))
        assert value.item() == zero.item()
        for grad in torch.autograd.grad(value, [z1, z2], allow_unused=True):
            assert grad is None or grad.isfinite().all()


@pytest.mark.parametrize("temperature", [0.005, 0.01, 0.05, 0.5, 5.0])
@pytest.mark.parametrize("name", ["infonce", "ntxent", "dclw", "siglip", "supcon", "mmhe", "mbarlow"])
def test_every_temperature_is_survived(name: str, temperature: float) -> None:
    learnable = name not in ("mmhe", "mbarlow")
    hs.testing.assert_survives(hs.create_objective(name, temperature=temperature, learnable=learnable))


@pytest.mark.parametrize("dim", [1, 2, 64, 4096])
@pytest.mark.parametrize(("name", "params"), **cases.named(cases.PAIRWISE))
def test_every_dimension_is_survived(name: str, params: dict[str, Any], dim: int) -> None:
    z1, z2 = (z.float().requires_grad_() for z in views(5, dim))
    loss = hs.create_objective(name, **params)(z1, z2, some_labels(5))
    loss.backward()
    assert loss.isfinite()
    assert z1.grad.isfinite().all()


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.PAIRWISE + cases.RELEASED))
def test_a_zero_row_gets_no_gradient(name: str, params: dict[str, Any]) -> None:
    z1, z2 = views(5, 4)
    z1[2] = 0
    z1.requires_grad_()
    for context in (hs.dense(), hs.streaming(2)):
        with context:
            (grad,) = torch.autograd.grad(hs.create_objective(name, **params)(z1, z2, some_labels(5)), [z1])
        assert (grad[2] == 0).all()
        assert grad.isfinite().all()


def test_huge_and_tiny_rows_have_the_value_of_their_direction() -> None:
    z1, z2 = views(5, 4, dtype=torch.float32)
    expected = hs.create_objective("ntxent")(z1, z2).item()
    scales = torch.tensor([1e35, 1e-25, 1.0, 1e20, 1e-20])[:, None]
    assert hs.create_objective("ntxent")(z1 * scales, z2 / 1e3).item() == pytest.approx(expected, rel=1e-5)


def test_extreme_rows_have_the_same_gradient_streamed_and_dense() -> None:
    z1, z2 = views(8, 4)
    scales = torch.tensor([1.0, 0.0, 1e40, 1e-40, 1e120, 1.0, 1e-20, 1e20], dtype=torch.float64)[:, None]
    grads = []
    for context in (hs.dense(), hs.streaming(3)):
        x = (z1 * scales).requires_grad_()
        with context:
            grads.append(torch.autograd.grad(hs.create_objective("ntxent")(x, z2), [x])[0] * scales)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-9, atol=1e-12)
    assert (grads[0][1] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "params"), **cases.named(cases.ALL))
def test_duplicates_and_ties_leave_value_and_gradient_finite(name: str, params: Params, dtype: torch.dtype) -> None:
    z1, z2 = views(6, 4, dtype=dtype)
    tied = z2.clone()
    tied[3] = tied[2]  # two equally hard negatives for everybody else
    for one, two in ((z1, tied), (tied, tied), (z1[[0, 0, 1, 1, 2, 2]], z2[[0, 0, 1, 1, 2, 2]])):
        a, b = one.clone().requires_grad_(), two.clone().requires_grad_()
        value = hs.create_objective(name, **params)(a, b, some_labels(6))
        assert value.isfinite()
        for grad in torch.autograd.grad(value, [a, b], allow_unused=True):
            assert grad is None or grad.isfinite().all()
