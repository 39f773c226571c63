"""The modified objectives: the original stage has the gradient of the true loss."""

from __future__ import annotations

import pytest
import torch

import hypersphere as hs
from hypersphere.geometry import unit
from hypersphere.testing.example import views
from tests.theory import loss_gradients


def test_unit_barlow_depends_on_the_axes() -> None:
    """Its gradient has the diagonal of the correlation matrix in it, so a rotation matters."""
    objective = hs.create_objective("mbarlow", stage="original")
    z1, z2 = views(6, 4)
    rotation = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).Q
    assert objective(z1 @ rotation, z2 @ rotation).item() != pytest.approx(objective(z1, z2).item(), rel=1e-3)


def test_original_mmhe_has_the_gradient_of_the_true_loss() -> None:
    """Alignment + ν (U(h) + U(h')), U the uniformity with t = 1."""
    z1, z2 = views(6, 4)
    grads = loss_gradients(hs.create_objective("mmhe", stage="original", weight=10.0), z1, z2)
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    h, g = unit(a), unit(b)
    loss = (h - g).pow(2).sum(dim=1).mean()
    for v in (h, g):
        loss = loss + 10 * torch.pdist(v).pow(2).mul(-1).exp().mean().log()
    for one, two in zip(grads, torch.autograd.grad(loss, [a, b]), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


def test_original_mbarlow_has_the_gradient_of_the_true_loss() -> None:
    z1, z2 = views(6, 4)
    grads = loss_gradients(hs.create_objective("mbarlow", stage="original", weight=30.0), z1, z2)
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    correlation = unit(a).T @ unit(b) / 6
    diagonal = correlation.diagonal()
    loss = (diagonal - 1).pow(2).sum() + 30 * (correlation.pow(2).sum() - diagonal.pow(2).sum())
    for one, two in zip(grads, torch.autograd.grad(loss, [a, b]), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["mmhs", "printed/mmhs"])
@pytest.mark.parametrize("stage", ["+gd", "+r"])
def test_mmhs_of_repeated_rows_is_that_of_float64_in_blocks_of_any_size(stage: str, name: str) -> None:
    objective = hs.create_objective(name, stage=stage)
    rows = torch.randn(64, 16, generator=torch.Generator().manual_seed(0)).repeat(3, 1)
    other = rows + 0.05 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(1))
    expected = objective(rows.double(), other.double()).item()
    for context in (hs.dense(), hs.streaming(1), hs.streaming(5)):
        with context:
            assert objective(rows, other).item() == pytest.approx(expected, rel=1e-5)
