"""Objectives of features get the whole views, and labels only if they read them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import Inputs, evaluate_features
from hypersphere.geometry import widened
from hypersphere.objectives import FeatureObjective, number
from hypersphere.testing.example import views


class Mean(FeatureObjective):
    """Product of the mean rows, with everything it was given."""

    weight: float = number(default=2.0, learnable=True)
    given: Any = None

    def rows(self, z: Tensor) -> Tensor:
        return 3 * widened(z)

    def features(self, *views: Tensor, **more: Tensor) -> dict[str, Tensor]:
        type(self).given = more
        one, other = (view.mean(dim=0) for view in views)
        return {"loss": self.weight * (one @ other), "first": one.sum()}


class Labelled(Mean):
    labelled = True


def test_numbers_are_of_the_mapped_rows_and_terms_are_asked_for() -> None:
    """Means (1, 2) and (0, 3) of rows that are multiplied by 3: 2 · 9 · 6, and 3 + 6."""
    z1, z2 = torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([[1.0, 3.0], [-1.0, 3.0]])
    objective = Mean()
    assert evaluate_features(objective, Inputs(z1, z2)) == {"loss": torch.tensor(108.0)}
    terms = evaluate_features(objective, Inputs(z1, z2), terms=True)
    assert {name: value.item() for name, value in terms.items()} == {"loss": 108, "first": 9}
    assert objective(z1, z2).item() == 108


def test_rows_and_parameters_are_moved_as_by_autograd() -> None:
    z1, z2 = (z.requires_grad_() for z in views(5, 3))
    objective = Mean(learnable=True).double()
    for context in (hs.dense(), hs.streaming(2)):  # which is for pairs
        with context:
            loss = objective(z1, z2)
        grads = torch.autograd.grad(loss, [z1, z2, *objective.parameters()])
        torch.testing.assert_close(grads[0], (2 * 9 / 5 * z2.mean(dim=0)).expand(5, 3))
        torch.testing.assert_close(grads[1], (2 * 9 / 5 * z1.mean(dim=0)).expand(5, 3))


def test_labels_reach_only_an_objective_that_reads_them() -> None:
    z1, z2 = views(4, 3)
    labels = torch.tensor([5, -1, 5, 7])
    Mean()(z1, z2, labels)
    assert Mean.given == {}
    Labelled()(z1, z2, labels)
    assert Labelled.given["labels"].tolist() == [5, -1, 5, 7]
    Labelled()(z1, z2)
    assert Labelled.given == {}


def test_what_is_of_pairs_alone_is_refused() -> None:
    z1, z2 = views(4, 3)
    with pytest.raises(ValueError, match="compares features, not pairs: it takes no negatives"):
        Mean()(z1, z2, negatives=z1)
    with pytest.raises(ValueError, match="views differ in shape"):
        Mean()(z1, z2[:3])


def test_half_precision_is_evaluated_in_float32() -> None:
    z1, z2 = (torch.full((3, 2), value, dtype=torch.float16) for value in (300.0, 400.0))
    with torch.autocast("cpu", dtype=torch.bfloat16):  # 3 · 300 · 3 · 400 is beyond float16
        assert Mean()(z1, z2).item() == 2 * 2 * 900 * 1200
