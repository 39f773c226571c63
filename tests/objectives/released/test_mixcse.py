"""MixCSE's code: the mixes of all instances, and similarity 0 where one is mostly the anchor's positive."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import views
from tests import reference as ref


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("symmetric", [False, True])
def test_mixes_are_those_of_the_whole_batch(size: int, symmetric: bool) -> None:
    z1, z2 = views(size, 4)
    z1 = z1 * torch.linspace(0.3, 5.0, size).unsqueeze(1)  # lengths matter: raw rows are mixed
    objective = hs.create_objective("released/mixcse", temperature=0.2, symmetric=symmetric, mix=0.3)
    mixed = ref.mixed_with_the_next(z1, 0.3), ref.mixed_with_the_next(z2, 0.3)

    def expected(a: ref.Rows, b: ref.Rows) -> float:
        value = ref.mixcse(a, b, mixed, 0.2)
        return (value + ref.mixcse(b, a, mixed[::-1], 0.2)) / 2 if symmetric else value

    differences = ref.finite_difference(expected, z1.numpy(), z2.numpy())
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    loss = objective(a, b)
    loss.backward()
    assert loss.item() == pytest.approx(expected(z1, z2), rel=1e-12)
    for grad, difference in zip((a.grad, b.grad), differences, strict=True):
        np.testing.assert_allclose(grad.numpy(), difference, atol=1e-7)


def test_the_sum_is_that_of_all_anchors() -> None:
    z1, z2 = views(5, 4)
    for symmetric, anchors in ((False, 5), (True, 10)):
        mean, total = (
            hs.create_objective("released/mixcse", symmetric=symmetric, reduction=how)(z1, z2).item()
            for how in ("mean", "sum")
        )
        assert total == pytest.approx(anchors * mean, rel=1e-12)


def test_mixes_of_a_row_of_zeros_and_of_very_different_lengths() -> None:
    z1, z2 = views(4, 3)
    z1 = z1 * torch.tensor([[0.0], [1e-30], [1.0], [1e30]])
    objective = hs.create_objective("released/mixcse")
    mixed = ref.mixed_with_the_next(z1, 0.2), ref.mixed_with_the_next(z2, 0.2)
    assert objective(z1, z2).item() == pytest.approx(ref.mixcse(z1, z2, mixed, 0.05), rel=1e-9)


def test_the_largest_numbers_are_mixed_without_overflow() -> None:
    z1, z2 = views(4, 3, dtype=torch.float32)
    expected = hs.create_objective("released/mixcse")(z1, z2).item()
    assert hs.create_objective("released/mixcse")(z1 * 1e38, z2 * 1e38).item() == pytest.approx(expected, rel=1e-5)
