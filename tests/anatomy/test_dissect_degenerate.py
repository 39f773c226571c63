"""Anatomies where something is missing: rows of zeros, gates that are closed anyhow, rows that are all the same."""

import math

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.anatomy import dissect
from hypersphere.geometry import tangent
from hypersphere.objectives import PairwiseObjective, within
from tests.anatomy.drawn import LABELS, X, Y
from tests.cases import TWO_VIEWS


def zero_row() -> Tensor:
    x = X.clone()
    x[3] = 0
    return x


@pytest.mark.parametrize("name", ["infonce", "dhel", "mixup", "ntxent"])
def test_a_row_of_zeros_receives_nothing_and_leaves_the_others_alone(name: str) -> None:
    objective = hs.create_objective(name)
    anatomy = dissect(objective, zero_row(), Y, scope="batch")
    x = zero_row().requires_grad_()
    (grad,) = torch.autograd.grad(objective(x, Y), [x])
    assert not grad[3].any()
    torch.testing.assert_close(sum(anatomy.parts().values()), tangent(grad, zero_row()), rtol=1e-8, atol=1e-10)
    assert not anatomy.moving[3] and bool(anatomy.moving[[0, 1, 2]].all())
    assert anatomy.numbers()["not explained by similarities"] < 1e-8


def test_a_row_of_zeros_among_the_negatives_changes_no_dissipation() -> None:
    temperature = 0.5
    y = Y.clone()
    y[5] = 0
    anatomy = dissect(lambda a, b: hs.create_objective("infonce", temperature=temperature)(a, b), zero_row(), y)
    share = torch.softmax(zero_row() @ y.T / temperature, dim=1).diagonal()
    kept = (torch.arange(12) != 3) & (torch.arange(12) != 5)
    torch.testing.assert_close(anatomy.dissipation[kept], (1 - share)[kept], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("name", "margin"), [("printed/mmhs", 0.3), ("mmhs", -0.7), ("mmhs", 0.3)])
def test_dissipation_of_mmhs_is_its_gate(name: str, margin: float) -> None:
    objective = hs.create_objective(name, views="anchor", margin=margin)
    hardest = (X @ Y.T).fill_diagonal_(-2).amax(dim=1)
    gate = ((X * Y).sum(dim=1) - hardest < objective.margin).double()
    anatomy = dissect(objective, X, Y)
    assert torch.equal(anatomy.dissipation, gate) and "similarity sent to -∞" in anatomy.conventions


@pytest.mark.parametrize("stage", ["original", "+gd"])
def test_dissipation_of_unweighted_mbarlow_is_its_gate(stage: str) -> None:
    gate = ((X * Y).sum(dim=1) - (X @ Y.T).fill_diagonal_(-2).amax(dim=1) < 0.3).double()
    dissipation = dissect(hs.create_objective("mbarlow", stage=stage), X, Y).dissipation
    torch.testing.assert_close(dissipation, gate if stage == "+gd" else torch.ones(12).double(), rtol=1e-9, atol=1e-9)


def test_the_farthest_positive_is_a_number() -> None:
    for name in TWO_VIEWS:
        if isinstance(objective := hs.create_objective(name), PairwiseObjective):
            assert type(objective.farthest) is float


@pytest.mark.parametrize("name", ["mmhe", "mmhs", "mbarlow", "mpt"])
def test_anchors_whose_gate_is_closed_anyhow_are_not_alive(name: str) -> None:
    objective = hs.create_objective(f"released/{name}")
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(objective(x, Y), [x])
    moved = grad.any(dim=1)
    anatomy = dissect(objective, X, Y)
    assert not moved.all() and anatomy.numbers()["anchors with gradient"] <= moved.double().mean()


class Around(nn.Module):
    """A loss of somebody else's that keeps one of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.base = hs.create_objective("supcon")

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        out: Tensor = self.base(a, b)
        return out


def test_labels_do_not_reach_a_foreign_loss() -> None:
    with_labels, without = (dissect(Around(), X, Y, labels) for labels in (LABELS, None))
    torch.testing.assert_close(with_labels.dissipation, without.dissipation, rtol=0, atol=0)
    assert list(within(Around())) == []


def test_a_loss_that_does_not_look_at_its_first_view_is_refused() -> None:
    with pytest.raises(ValueError, match="does not depend on its first view"):
        dissect(lambda a, b: b.sum(), X, Y)


def test_without_labels_cloa_is_its_base_also_where_coordinates_count() -> None:
    base = hs.create_objective("barlow", normalization="unit")
    numbers = [dissect(each, X, Y).numbers() for each in (base, hs.create_objective("cloa", base=base, num_classes=2,
                                                                                    dim=6))]  # fmt: skip
    assert numbers[0] == pytest.approx(numbers[1], nan_ok=True, rel=1e-9)
    assert math.isfinite(numbers[0]["mean ratio"])


@pytest.mark.parametrize(
    ("views", "options", "sentence"),
    [
        ((X[0], Y[0]), {}, "must be a matrix"),
        ((X, Y), {"labels": [0] * 12}, "labels must be a tensor"),
        ((X, Y), {"most_anchors": 0}, "at least 1"),
        ((X[:1], Y[:1]), {}, "at least two rows"),
    ],
)
def test_bad_questions_get_one_sentence(views: tuple[Tensor, Tensor], options: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        dissect(hs.create_objective("supcon"), *views, **options)
