"""The modified objectives as their released code computes them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.testing.example import views
from tests import cases
from tests import reference as ref
from tests.theory import gradients


def released_gates(x: ref.Matrix, stage: str, margin: float) -> ref.Vector:
    """1[1 - max_{k≠i} x_i·x_k < m] within the view, 1 at the original stage."""
    closest = [max(ref.dot(a, x[k]) for k in range(len(x)) if k != i) for i, a in enumerate(x)]
    return [1.0 if stage == "original" or 1 - c < margin else 0.0 for c in closest]


def released_weights(name: str, x: ref.Matrix, y: ref.Matrix, stage: str, tau: float, nu: float) -> ref.Matrix:
    """W_ij, 0 at j = i."""
    size, early = len(x), stage in ("original", "+gd")
    pairs = [(i, j) for i in range(size) for j in range(size) if j != i]
    weights = [[0.0] * size for _ in range(size)]
    if name == "mmhs":
        for i in range(size):
            j = max((j for j in range(size) if j != i), key=lambda j, i=i: ref.dot(x[i], y[j]))
            distance = math.sqrt(2 - 2 * ref.dot(x[i], y[j]) + 1e-4)
            weights[i][j] = (nu if early else 1.0) / (size * distance)  # the code takes the mean over anchors
        return weights
    view = y if name == "mbarlow" else x
    cosines = {(i, j): ref.dot(view[i], view[j]) for i, j in pairs}
    if name == "mmhe":
        scale = 1.0 if early else 1 / tau
        total = math.fsum(math.exp(scale * cosines[i, j]) for i, j in pairs if i < j)
        for i, j in pairs:
            weights[i][j] = (nu if early else 1.0) * scale * math.exp(scale * cosines[i, j]) / total
    else:
        total = math.fsum(math.exp(cosines[pair] / tau) for pair in pairs)
        for i, j in pairs:
            weights[i][j] = 2 * nu * cosines[i, j] / size**2 if early else math.exp(cosines[i, j] / tau) / total
    return weights


def released_gradient(
    name: str, z1: ref.Rows, z2: ref.Rows, stage: str, margin: float, ratio: float, nu: float, tau: float = 0.05
) -> ref.Gradients:
    """Σ_j W_ij n_j - P_i y_i for every anchor whose gate is open, and -P_i x_i for every positive whose gate is."""
    h, g = ref.unit_rows(z1), ref.unit_rows(z2)
    grads = [[[0.0] * len(h[0]) for _ in h] for _ in range(2)]
    for turn, (x, y) in enumerate(((h, g), (g, h))):
        weights, keys = released_weights(name, x, y, stage, tau, nu), y if name == "mmhs" else x
        gates, others = released_gates(x, stage, margin), released_gates(y, stage, margin)
        for i in range(len(x)):
            pull = ratio * math.fsum(weights[i])
            for k in range(len(x[i])):
                push = math.fsum(weights[i][j] * keys[j][k] for j in range(len(x)))
                grads[turn][i][k] += gates[i] * (push - pull * y[i][k])
                grads[1 - turn][i][k] -= others[i] * pull * x[i][k]
    return ref.raw_gradients(z1, grads[0]), ref.raw_gradients(z2, grads[1])


MODIFIED = {"mmhe": 10.0, "mmhs": 1.0, "mbarlow": 30.0, "mvicreg": 30.0}


@pytest.mark.parametrize("name", MODIFIED)
def test_the_released_gradient_moves_both_vectors_of_a_positive(name: str) -> None:
    z1, z2 = views(8, 5)
    gates = released_gates(ref.unit_rows(z1), "+r", 0.3) + released_gates(ref.unit_rows(z2), "+r", 0.3)
    assert 0 < sum(gates) < 16
    for margin in (0.3, 3.0):
        objective = hs.create_objective(f"released/{name}", ratio=1.5, margin=margin)
        expected = released_gradient(name, z1, z2, "+r", margin, 1.5, MODIFIED[name])
        for grad, closed in zip(gradients(objective, z1, z2), expected, strict=True):
            np.testing.assert_allclose(grad.numpy(), closed, atol=1e-11)


@pytest.mark.parametrize("stage", cases.STAGES)
@pytest.mark.parametrize("name", MODIFIED)
def test_the_released_energy_has_its_own_gate_weights_and_neighbours_at_every_stage(name: str, stage: str) -> None:
    if name == "mmhs" and stage == "+w":
        stage = "+r"  # there is no +w
    z1, z2 = views(8, 5)
    objective = hs.create_objective(f"released/{name}", stage=stage, margin=0.3, weight=MODIFIED[name])
    expected = released_gradient(name, z1, z2, stage, 0.3, 0.0, MODIFIED[name])
    for grad, closed in zip(gradients(objective, z1, z2, part="energy"), expected, strict=True):
        np.testing.assert_allclose(grad.numpy(), closed, atol=1e-11)


@pytest.mark.parametrize("name", MODIFIED)
def test_the_released_gate_stops_other_vectors_than_the_papers(name: str) -> None:
    """Within the view instead of across: some vectors are stopped by one of the two only."""
    z1, z2 = views(8, 5)
    paper, released = (
        torch.cat(gradients(hs.create_objective(each, margin=0.3), z1, z2)).abs().amax(dim=1) == 0
        for each in (name, f"released/{name}")
    )
    assert (released & ~paper).any()
    assert released.tolist() == [g == 0 for z in (z1, z2) for g in released_gates(ref.unit_rows(z), "+r", 0.3)]


@pytest.mark.parametrize("name", MODIFIED)
def test_the_released_ratio_acts_as_about_twice_itself(name: str) -> None:
    """Ungated, the pull on x_i is r(κ_i + κ'_i), κ the total weight of the anchor in either view's turn."""

    def pulls(z1: Tensor, z2: Tensor, turns: str) -> Tensor:
        """Length of what the ratio adds to the gradient in the first view."""
        with_ratio, without = (
            gradients(hs.create_objective(f"released/{name}", margin=3.0, ratio=r, views=turns), z1, z2)[0]
            for r in (1.5, 0.0)
        )
        return (with_ratio - without).norm(dim=1)

    z1, far = views(24, 8)
    for z2 in (far, z1 + 0.03 * (far - z1)):
        doubling = pulls(z1, z2, "both") / pulls(z1, z2, "anchor")  # anchor: r κ_i alone
        kappa = [
            torch.tensor([math.fsum(row) for row in released_weights(name, x, y, "+r", 0.05, 1.0)], dtype=torch.float64)
            for x, y in itertools.permutations((ref.unit_rows(z1), ref.unit_rows(z2)))
        ]
        torch.testing.assert_close(doubling, 1 + kappa[1] / kappa[0], rtol=1e-8, atol=0)
    assert doubling.median().item() == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("name", ["mmhe", "mmhs", "mbarlow", "mvicreg"])
def test_released_positives_are_those_of_the_paper_before_the_ratio_is_fixed(name: str) -> None:
    """The authors' code pulls with 2/N in all, as the paper does, until +r (mmhe: +w) makes the pull mutual."""
    pulls = []
    for each in (name, f"released/{name}"):
        z1, z2 = (z.requires_grad_() for z in views(8, 5))
        parts = hs.create_objective(each, stage="original").terms(z1, z2)
        pulls.append(torch.autograd.grad(parts["alignment"], [z1, z2]))
    for paper, released in zip(*pulls, strict=True):
        torch.testing.assert_close(released, paper, rtol=1e-10, atol=1e-12)
