"""SigLIP by hand, its gradients by loops, and its digits where a pair is far from its threshold."""

from __future__ import annotations

import math

import pytest
import torch

import hypersphere as hs
from hypersphere.geometry import unit
from hypersphere.testing.example import views


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def test_every_pair_is_a_classification_of_its_own() -> None:
    """Cosines 1 and 0.8 of the positives, 0.6 and 0 of the negatives; τ = 1/2 and b = -1."""
    x = torch.eye(2, dtype=torch.float64)
    y = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
    objective = hs.create_objective("siglip", temperature=0.5, bias=-1.0, reduction="none").double()
    alignment = [softplus(-(2 - 1)), softplus(-(1.6 - 1))]
    energy = [softplus(1.2 - 1), softplus(0 - 1)]
    terms = objective.terms(x, y)
    assert terms["alignment"].tolist() == pytest.approx(alignment)
    assert terms["energy"].tolist() == pytest.approx(energy)
    assert terms["loss"].tolist() == pytest.approx([a + e for a, e in zip(alignment, energy, strict=True)])


def test_the_bias_balances_how_often_positives_and_negatives_are_taken_for_the_other() -> None:
    """∂L/∂b = (Σ_negatives σ(s/τ + b) - Σ_positives σ(-s/τ - b)) / N, by loops."""
    z1, z2 = views(6, 4)
    objective = hs.create_objective("siglip", temperature=0.4, bias=-1.5).double()
    cosines = (unit(z1) @ unit(z2).T).tolist()
    wrong = 0.0
    for i in range(6):
        for j in range(6):
            logit = cosines[i][j] / 0.4 - 1.5
            wrong += -1 / (1 + math.exp(logit)) if i == j else 1 / (1 + math.exp(-logit))
    (grad,) = torch.autograd.grad(objective(z1, z2), objective.bias)
    assert grad.item() == pytest.approx(wrong / 6, rel=1e-6)


@pytest.mark.parametrize("bias", [-60.0, 60.0])
def test_pairs_far_from_their_threshold_keep_their_digits(bias: float) -> None:
    """A positive at a logit of 60, or negatives at -60, cost e^-60 each, which 1 + e^-60 would lose."""
    x = torch.eye(3, dtype=torch.float64)
    objective = hs.create_objective("siglip", temperature=1.0, bias=bias).double()
    y = x.roll(1, 0)  # positives have a cosine of 0, one negative of each anchor 1
    with torch.no_grad():
        terms = objective.terms(x, y)
    if bias > 0:
        assert terms["alignment"].item() == pytest.approx(math.exp(-60), rel=1e-12)
        assert terms["energy"].item() == pytest.approx(61 + 60, rel=1e-12)
    else:
        assert terms["energy"].item() == pytest.approx(math.exp(-59) + math.exp(-60), rel=1e-12)
        assert terms["alignment"].item() == pytest.approx(60, rel=1e-12)


def test_both_numbers_are_learned_unless_they_are_fixed() -> None:
    assert {name for name, _ in hs.create_objective("siglip").named_parameters()} == {"log_temperature", "bias"}
    assert not list(hs.create_objective("siglip", learnable=False).parameters())
