"""MACL: DCL's gradient at a temperature that follows the batch."""

from __future__ import annotations

import math

import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import views
from tests import reference as ref


def loops(z1, z2, temperature: float, alpha: float, a0: float) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    """The loss from shares of the positives, row by row, and the temperature."""
    rows = [*ref.unit_rows(z1.detach().numpy()), *ref.unit_rows(z2.detach().numpy())]
    size = len(z1)
    aligned = ref.mean([ref.dot(rows[i], rows[size + i]) for i in range(size)])
    tau = temperature * (1 + alpha * (aligned - a0))
    losses = []
    for i, row in enumerate(rows):
        powers = [math.exp(ref.dot(row, other) / tau) for other in rows]
        share = powers[(i + size) % (2 * size)] / (sum(powers) - powers[i])
        losses.append(-math.log(share) / (1 - share))
    return ref.mean(losses), tau


@pytest.mark.parametrize("settings", [{}, {"alpha": 0.0}, {"temperature": 0.3, "alpha": 0.7, "a0": 0.2}])
def test_value_of_the_formula_and_gradient_of_dcl(settings: dict[str, float]) -> None:
    z1, z2 = (z.requires_grad_() for z in views(7, 4))
    expected, tau = loops(z1, z2, **{"temperature": 0.1, "alpha": 0.5, "a0": 0.0, **settings})
    dcl = hs.create_objective("dcl", negatives="both", temperature=tau)
    grads = torch.autograd.grad(dcl(z1, z2), [z1, z2])
    for block in (None, 3):
        with hs.dense() if block is None else hs.streaming(block):
            value = hs.create_objective("macl", **settings)(z1, z2)
            ours = torch.autograd.grad(value, [z1, z2])
        assert value.item() == pytest.approx(expected, rel=1e-12)
        for one, two in zip(ours, grads, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", ["macl", "mixup"])
def test_losses_of_two_batches_are_differentiated_in_any_order(name: str) -> None:
    """Streamed losses, one for each anchor, are computed again in backward: at the temperature of their own batch."""
    objective = hs.create_objective(name, reduction="none", **({"base": "macl"} if name == "mixup" else {}))
    (z1, z2), (other, _) = views(6, 4), views(6, 4, seed=3)
    z1.requires_grad_()
    with hs.dense():
        (expected,) = torch.autograd.grad(objective(z1, z2).sum(), z1)
    with hs.streaming(2):
        losses = objective(z1, z2)
        objective(other, other)
        (grad,) = torch.autograd.grad(losses.sum(), z1)
    torch.testing.assert_close(grad, expected, rtol=1e-10, atol=1e-12)


def test_a_sharp_temperature_overflows_nothing() -> None:
    x = torch.eye(6, requires_grad=True)
    value = hs.create_objective("macl", temperature=0.001, alpha=0.0)(x, x)
    assert value.item() == 1 and torch.autograd.grad(value, x)[0].isfinite().all()


def test_a_temperature_that_could_reach_0_is_refused() -> None:
    with pytest.raises(ValueError, match=r"alpha · \(1 \+ a0\) must be below 1, not 2"):
        hs.create_objective("macl", alpha=1.0, a0=1.0)
    objective = hs.create_objective("macl")
    with pytest.raises(ValueError, match="could reach 0"):
        objective.alpha = 1.0
    assert objective.alpha == 0.5


def test_an_anchor_without_negatives_keeps_its_alignment() -> None:
    z1, z2 = (z.requires_grad_() for z in views(5, 4))
    ids = torch.zeros(5, dtype=torch.long)
    grads = [
        torch.autograd.grad(hs.create_objective(name, temperature=0.2, **more)(z1, z2, ids=ids), [z1, z2])
        for name, more in (("macl", {"alpha": 0.0}), ("dcl", {"negatives": "both"}))
    ]
    for one, two in zip(*grads, strict=True):
        torch.testing.assert_close(one, two)
