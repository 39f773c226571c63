"""The base class of objectives that see only the hardest negative."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.objectives import HardestObjective, flag
from hypersphere.objectives.hardest import hinge
from hypersphere.testing.example import views


def test_a_formula_that_is_missing_is_named() -> None:
    class Silent(HardestObjective):
        pass

    with pytest.raises(TypeError, match="Silent must define from_hardest"):
        Silent()(*views(4, 3))


def test_a_hinge_and_its_parts_are_0_beyond_the_margin_and_without_negatives() -> None:
    alignment = torch.tensor([0.5, -0.7, -0.25, 2.0], requires_grad=True)
    energy = torch.tensor([0.25, 0.5, 0.25, 1.0], requires_grad=True)
    values = hinge(alignment, energy, torch.tensor([True, True, True, False]))
    assert values["loss"].tolist() == [0.75, 0, 0, 0]
    assert values["alignment"].tolist() == [0.5, 0, 0, 0] and values["energy"].tolist() == [0.25, 0, 0, 0]
    for value in values.values():
        grads = torch.autograd.grad(value.sum(), [alignment, energy], retain_graph=True, materialize_grads=True)
        assert all(grad[1:].tolist() == [0, 0, 0] for grad in grads)


class Gap(HardestObjective):
    """Of each matrix, once."""

    negatives = ("cross", "same")

    def from_hardest(self, positive: Tensor, hardest: Any) -> Tensor:
        return hardest[0] + 10 * hardest[1] - 100 * positive


class Sometimes(Gap):
    """The largest similarity is the hardest with one setting only."""

    negatives = "cross"
    flipped: bool = flag(default=False)

    @property
    def monotone(self) -> bool:
        return not self.flipped

    def from_hardest(self, positive: Tensor, hardest: Any) -> Tensor:
        return hardest - positive

    def fallback(self, positive: Tensor, negatives: Any, mask: Any) -> Tensor:
        return negatives.masked_fill(~mask, torch.inf).amin(dim=1) - positive


def test_the_formula_gets_the_largest_similarity_of_each_matrix() -> None:
    """Three rows of which every cosine is known."""
    x = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0.6, 0.8, 0]], dtype=torch.float64)
    y = torch.tensor([[0.8, 0.6, 0], [0, 0, 1], [0, 1, 0]], dtype=torch.float64)
    # x·y: .8 0 0; .6 0 1; .96 0 .8.   x·x: 1 0 .6; 0 1 .8; .6 .8 1
    expected = [0 + 6 - 80, 1 + 8 - 0, 0.96 + 8 - 80]
    assert Gap().sees == "hardest"
    for context in (hs.dense(), hs.streaming(2)):
        with context:
            assert Gap(reduction="none")(x, y).tolist() == pytest.approx(expected)


def test_where_it_is_not_the_largest_the_whole_matrix_is_asked_for() -> None:
    x, y = torch.eye(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64).roll(1, 0)
    assert Sometimes().sees == "hardest" and Sometimes(flipped=True).sees == "all"
    assert Sometimes()(x, y).item() == 1 and Sometimes(flipped=True)(x, y).item() == 0

    class Unready(Gap):
        monotone = False

    with pytest.raises(TypeError, match="Unready needs more than the largest similarity and must define fallback"):
        Unready()(x, y)


def test_a_formula_of_similarities_takes_the_place_of_that_of_the_hardest() -> None:
    class More(Gap):
        def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
            return -positive

    assert More().sees == "all"
