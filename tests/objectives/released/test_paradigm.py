"""The baseline in the released code (Li et al.), whose ratio acts twice: against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import hypersphere as hs
from tests import reference as ref
from tests.objectives.released.batch import BATCH, gradients, value


def released_baseline(
    z1: ref.Rows, z2: ref.Rows, margin: float, ratio: float, tau: float = 0.05
) -> tuple[float, ref.Gradients]:
    """Σ over both directions of Σ_{active i} Σ_{j≠i} W_ij (x_i·sg(y_j) - r x_i·y_i) / (N · active)."""
    h, g = ref.unit_rows(z1), ref.unit_rows(z2)
    size, width = len(h), len(h[0])
    grads = [[[0.0] * width for _ in h] for _ in range(2)]
    total = 0.0
    for turn, (x, y) in enumerate(((h, g), (g, h))):
        others = [[j for j in range(size) if j != i] for i in range(size)]
        cosines = [[ref.dot(x[i], y[j]) for j in others[i]] for i in range(size)]
        own = [ref.dot(x[i], y[i]) for i in range(size)]
        active = [i for i in range(size) if own[i] - max(cosines[i]) < margin]
        for i in active:
            scale = 1 / (size * len(active))
            for j, s, w in zip(others[i], cosines[i], ref.softmax([s / tau for s in cosines[i]]), strict=True):
                total += scale * w * (s - ratio * own[i])
                for k in range(width):
                    grads[turn][i][k] += scale * w * (y[j][k] - ratio * y[i][k])
                    grads[1 - turn][i][k] -= scale * w * ratio * x[i][k]
    return total, (ref.raw_gradients(z1, grads[0]), ref.raw_gradients(z2, grads[1]))


@pytest.mark.parametrize("margin", [0.3, 3.0])
def test_the_released_baseline_equals_plain_loops(margin: float) -> None:
    params = {
        "dissipation": {"name": "margin", "margin": margin},
        "ratio": {"name": "constant", "value": 1.25},
    }
    expected, grads = released_baseline(*BATCH, margin, 1.25)
    assert value("released/paradigm", **params) == pytest.approx(expected, rel=1e-11)
    for grad, closed in zip(gradients("released/paradigm", **params), grads, strict=True):
        np.testing.assert_allclose(grad, closed, atol=1e-12)


def test_the_released_baseline_pulls_twice_as_hard_as_its_ratio_says() -> None:
    ungated: dict[str, Any] = {"dissipation": "none"}

    def pull(name: str) -> np.ndarray:
        with_ratio, without = (
            gradients(name, ratio={"name": "constant", "value": r}, **ungated)[0] for r in (1.0, 0.0)
        )
        return np.linalg.norm(with_ratio - without, axis=1)

    np.testing.assert_allclose(7 * pull("released/paradigm"), 2 * pull("paradigm"), rtol=1e-9)  # 7: all are active


def test_the_released_baseline_without_an_open_gate_is_zero() -> None:
    x = torch.eye(4, requires_grad=True)
    loss = hs.create_objective("released/paradigm")(x, x)
    loss.backward()
    assert loss.item() == 0
    assert (x.grad == 0).all()


def test_the_anchors_of_the_released_baseline_are_coupled() -> None:
    """Each is divided by how many are active, so there is no list of losses."""
    with pytest.raises(ValueError, match="released/paradigm has no reduction 'none', only 'mean' or 'sum'"):
        hs.create_objective("released/paradigm", reduction="none")
