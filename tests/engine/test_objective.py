"""What the engine passes to an objective, what it makes of the numbers, and that base classes fit its contracts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.engine.objective import FeatureContract, PairContract, reduce_anchors, uniform_weight
from hypersphere.objectives import FeatureObjective, PairwiseObjective
from hypersphere.testing.example import views


class Watching(PairwiseObjective):
    """Both views are anchors in turn; it keeps all it is shown."""

    anchors = "both"
    negatives = ("cross", "same", "other")
    extra_negatives = "first"
    without_extra = ("other",)
    labelled = True
    seen: Any = None

    def prepare(self, x: Any, y: Any) -> Any:
        return (x, y)

    def block(self, anchors: Any) -> Any:
        kept = {name: tuple(each.clone() for each in getattr(anchors, name)) for name in ("negatives", "masks")}
        self.seen.append(replace(anchors, **kept))  # their memory serves the next block
        return {"loss": anchors.positive}


@pytest.mark.parametrize("size", [2, 5])
def test_a_block_shows_its_own_rows_and_all_columns(size: int) -> None:
    z1, z2 = views(5, 3)
    extra = views(2, 3, seed=7)[0]
    labels = torch.tensor([4, 1, 4, -1, -1])
    x, y, n = (rows / rows.norm(dim=1, keepdim=True) for rows in (z1, z2, extra))
    seen: list[Any] = []
    with hs.streaming(size), torch.no_grad():
        Watching(seen=seen)(z1, z2, labels, negatives=extra)
    per_view = -(-5 // size)
    assert len(seen) == 2 * per_view
    for number, anchors in enumerate(seen):
        one, other, more = (x, y, n) if number < per_view else (y, x, n[:0])  # the extra ones are the first view's
        b = anchors.block
        assert (b.start, b.stop) == ((number % per_view) * size, min(5, (number % per_view + 1) * size))
        assert anchors.indices.tolist() == list(range(b.start, b.stop))
        torch.testing.assert_close(anchors.rows, one[b])
        torch.testing.assert_close(anchors.others, other[b])
        (only,) = anchors.other_views
        torch.testing.assert_close(only, other[b])
        torch.testing.assert_close(anchors.positive, (one[b] * other[b]).sum(dim=1))
        expected = [one[b] @ torch.cat([other, more]).T, one[b] @ torch.cat([one, more]).T, other[b] @ other.T]
        for matrix, mask, same, columns in zip(
            anchors.negatives, anchors.masks, anchors.same_label, expected, strict=True
        ):
            width = columns.shape[1]
            torch.testing.assert_close(matrix[mask], columns[mask])
            for line, i in enumerate(range(b.start, b.stop)):
                assert mask[line].tolist() == [j != i for j in range(width)]
                kin = [j < 5 and j != i and labels[i] == labels[j] != -1 for j in range(width)]
                assert same[line].tolist() == kin
        assert anchors.labels.tolist() == labels[b].tolist()
        assert anchors.scores is None and anchors.guide is None
        for whole, rows in zip(anchors.context, (one, other), strict=True):
            torch.testing.assert_close(whole, rows)


@pytest.mark.parametrize(("base", "contract"), [(PairwiseObjective, PairContract), (FeatureObjective, FeatureContract)])
def test_a_base_class_has_all_that_the_engine_may_ask_for(base: Any, contract: Any) -> None:
    asked = {name for each in contract.__mro__ for name in [*vars(each), *getattr(each, "__annotations__", {})]}
    asked = {name for name in asked if not name.startswith("_")}
    assert {"rows", "fewest", "gather", "parameters"} < asked
    formula = {"features"}  # of a base class alone it is missing
    assert [name for name in asked - formula if not hasattr(base(), name)] == []


class Plain(PairwiseObjective):
    """Its loss is given."""


@pytest.mark.parametrize("sum_directions", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("num_directions", [1, 2, 3])
def test_the_weight_of_an_anchor_is_its_share_in_the_reduced_loss(
    reduction: str, num_directions: int, sum_directions: bool
) -> None:
    objective = Plain(reduction=reduction)
    objective.sum_directions = sum_directions
    losses = [torch.arange(4.0, dtype=torch.float64).add(each).requires_grad_() for each in range(num_directions)]
    value = reduce_anchors(objective, [{"loss": each, "part": 2 * each} for each in losses], terms=True)
    weight = uniform_weight(objective, 4, num_directions)
    for each in losses:
        (grad,) = torch.autograd.grad(value["loss"], each, retain_graph=True)
        assert grad.tolist() == pytest.approx([weight] * 4)
    total = sum(float(each.detach().sum()) for each in losses)
    mean = total / 4 / (1 if sum_directions else num_directions)
    assert value["loss"].item() == pytest.approx(total if reduction == "sum" else mean)
    assert value["part"].item() == pytest.approx(2 * value["loss"].item())


def test_the_loss_alone_is_what_a_call_without_terms_gets() -> None:
    given = [{"loss": torch.ones(3), "part": torch.zeros(3)}]
    assert reduce_anchors(Plain(), given).keys() == {"loss"}
    assert reduce_anchors(Plain(), given, terms=True).keys() == {"loss", "part"}
