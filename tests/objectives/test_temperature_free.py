"""InfoNCE on log-odds."""

from __future__ import annotations

import math

import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import views
from tests import reference as ref


@pytest.mark.parametrize("scale", [1.0, 2.0, 5.0])
@pytest.mark.parametrize("symmetric", [False, True])
def test_it_is_the_cross_entropy_of_artanh(scale: float, symmetric: bool) -> None:
    z1, z2 = (z.requires_grad_() for z in views(7, 4))

    def loops(one, two) -> float:  # type: ignore[no-untyped-def]
        h, g = ref.unit_rows(one), ref.unit_rows(two)
        total = 0.0
        for first, second in ((h, g), (g, h)) if symmetric else ((h, g),):
            for i, row in enumerate(first):
                logits = [scale * math.atanh(ref.dot(row, key)) for key in second]
                total += ref.logsumexp(logits) - logits[i]
        return total / len(h) / (2 if symmetric else 1)

    objective = hs.create_objective("artanh_infonce", scale=scale, symmetric=symmetric)
    rows = [z.detach().numpy() for z in (z1, z2)]
    for block in (None, 3):
        with hs.dense() if block is None else hs.streaming(block):
            value = objective(z1, z2)
            grads = torch.autograd.grad(value, [z1, z2])
        assert value.item() == pytest.approx(loops(*rows), rel=1e-12)
        for grad, expected in zip(grads, ref.finite_difference(loops, *rows), strict=True):
            torch.testing.assert_close(grad, torch.as_tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-6)


def test_small_cosines_are_those_of_infonce() -> None:
    """2 artanh(s) = 2s + O(s³): rows that share one long coordinate with nobody have small cosines."""
    z1, z2 = views(5, 4)
    far = torch.eye(10, dtype=torch.float64) * 100
    x, y = torch.cat([z1, far[:5]], dim=1), torch.cat([z2, far[5:]], dim=1)
    ours = hs.create_objective("artanh_infonce")(x, y)
    infonce = hs.create_objective("infonce", temperature=0.5)(x, y)
    assert ours.item() == pytest.approx(infonce.item(), abs=1e-8)


@pytest.mark.parametrize("scale", [0.5, 2.0, 8.0])
def test_coincident_and_antipodal_rows_have_finite_gradients(scale: float) -> None:
    for dtype in (torch.float32, torch.float64):
        x = torch.eye(4, dtype=dtype)
        x = torch.cat([x, -x]).requires_grad_()
        for y in (x, -x, x.flip(0), torch.ones_like(x)):
            for block in (None, 3):
                with hs.dense() if block is None else hs.streaming(block):
                    value = hs.create_objective("artanh_infonce", scale=scale)(x, y)
                    (grad,) = torch.autograd.grad(value, x)
                assert value.isfinite() and grad.isfinite().all()


def test_perfect_positives_have_the_slope_of_the_odds_form() -> None:
    """L = log(1 + (1-c)/(1+c) · S): ∂L/∂c = -S/2 at c = 1, S the sum of the negatives' odds, here 3."""
    x = torch.eye(4, dtype=torch.float64)
    objective = hs.create_objective("artanh_infonce")
    angle = 1e-4
    moved = objective(x, math.cos(angle) * x + math.sin(angle) * torch.cat([x[1:], -x[:1]]))
    assert objective(x, x).item() == 0
    assert moved.item() == pytest.approx(3 / 2 * (1 - math.cos(angle)), rel=1e-3)


def test_collapsed_rows_have_the_logarithm_of_the_batch() -> None:
    same = torch.ones(6, 3, dtype=torch.float64)
    turned = same + 1e-2 * torch.eye(3, dtype=torch.float64)[0]
    assert hs.create_objective("artanh_infonce")(same, turned).item() == pytest.approx(math.log(6), rel=1e-9)
