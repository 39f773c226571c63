"""Anatomies of objectives around others, with extra negatives, with labels, with odd positives."""

import math

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.anatomy import dissect
from hypersphere.geometry import tangent, unit
from tests.anatomy.drawn import EXTRA, LABELS, X, Y

CLOA = {"name": "cloa", "base": "infonce", "num_classes": 5, "dim": 6}


def gradient(objective, labels=None, negatives=None) -> Tensor:
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(objective(x, Y, labels, negatives=negatives), [x])
    return tangent(grad, X)


def test_extra_negatives_of_the_other_view_are_not_the_anchors():
    objective = hs.create_objective("dhel", energy="both", temperature=0.5)
    anatomy = dissect(objective, X, Y, negatives=EXTRA)
    columns = torch.cat([(X @ X.T).fill_diagonal_(-math.inf), X @ EXTRA.T], dim=1)
    torch.testing.assert_close(anatomy.coefficients.extra, torch.softmax(columns / 0.5, dim=1)[:, 12:] / 0.5)
    torch.testing.assert_close(anatomy.ratio, torch.ones_like(anatomy.ratio))
    whole = dissect(objective, X, Y, negatives=EXTRA, scope="batch")
    torch.testing.assert_close(sum(whole.parts().values()), gradient(objective, negatives=EXTRA))


class Others(hs.PairwiseObjective):
    """Both views take turns, and what counts is how the other view's rows stand to each other."""

    negatives = "other"
    anchors = "both"

    def per_anchor(self, positive, negatives, mask):
        return torch.logsumexp(negatives.masked_fill(~mask, -math.inf), dim=1) - positive


def test_in_the_other_views_turn_these_are_the_anchors_own():
    whole = dissect(Others(), X, Y, negatives=EXTRA, scope="batch")
    torch.testing.assert_close(sum(whole.parts().values()), gradient(Others(), negatives=EXTRA))
    assert not dissect(Others(), X, Y, negatives=EXTRA).coefficients.columns.any()


@pytest.mark.parametrize(
    "objective",
    [
        hs.create_objective("mixup", base="infonce"),
        hs.create_objective("mixup", base="ntxent", kind="positive"),
        hs.create_objective("mixup", base="supcon"),
        hs.create_objective("hyperbolic"),
    ],
    ids=lambda each: str(each)[:20],
)
def test_extra_negatives_reach_what_is_taken_apart_by_autograd(objective):
    anatomy = dissect(objective, X, Y, LABELS, negatives=EXTRA)
    assert anatomy.coefficients.extra.shape == (12, 5) and anatomy.coefficients.extra.any()
    torch.testing.assert_close(sum(anatomy.parts().values()), gradient(objective, LABELS, EXTRA), rtol=1e-6, atol=1e-9)


def test_anchors_of_cloa_are_left_over_wherever_it_stands():
    plain = dissect(hs.create_objective("infonce"), X, Y, scope="batch", negatives=EXTRA)
    around = dissect(hs.create_objective(**CLOA), X, Y, LABELS, scope="batch", negatives=EXTRA)
    torch.testing.assert_close(around.coefficients.columns, plain.coefficients.columns, rtol=1e-6, atol=1e-9)
    twice = dissect(hs.create_objective(**{**CLOA, "base": CLOA}), X, Y, LABELS, scope="batch", negatives=EXTRA)
    torch.testing.assert_close(twice.coefficients.columns, around.coefficients.columns)
    mixed = dissect(hs.create_objective("mixup", base="infonce"), X, Y)
    inside = dissect(hs.create_objective("mixup", base=CLOA), X, Y, LABELS)
    torch.testing.assert_close(inside.coefficients.columns, mixed.coefficients.columns, rtol=1e-6, atol=1e-9)
    assert mixed.residual.max() < 1e-8 < inside.residual.mean()


def test_negatives_for_a_foreign_loss_are_refused():
    with pytest.raises(ValueError, match="called with two views alone"):
        dissect(lambda a, b: -(a * b).sum(), X, Y, negatives=EXTRA)


@pytest.mark.parametrize("base", ["supcon", {"name": "mixup", "base": "supcon"}])
def test_positives_by_label_pull_inside_wrappers(base):
    wrapped = hs.create_objective("mixup" if base == "supcon" else "cloa", base=base,
                                  **({} if base == "supcon" else {"num_classes": 5, "dim": 6}))  # fmt: skip
    anatomy = dissect(wrapped, X, Y, LABELS)
    same = (LABELS.unsqueeze(1) == LABELS) & (LABELS >= 0)
    assert not anatomy.coefficients.negative[:, :12][same].any()
    assert (anatomy.dissipation >= 0).all() and (anatomy.dissipation <= 1 + 1e-9).all()
    alone = dissect(hs.create_objective("supcon"), X, Y, LABELS, scope="batch")
    lengths = [each.numbers()["length of the alignment part"] for each in (anatomy, alone)]
    assert lengths[0] == pytest.approx(lengths[1], rel=0.1)


def test_what_returns_a_vector_is_measured_by_its_sum():
    def dhel(a: Tensor, b: Tensor) -> Tensor:
        a, b = unit(a), unit(b)
        own = torch.eye(len(a), dtype=torch.bool)
        return torch.logsumexp((a @ a.T).masked_fill(own, -math.inf), dim=1) - (a * b).sum(dim=1)

    anatomy = dissect(dhel, X, Y)
    whole = dissect(lambda a, b: dhel(a, b).sum(), X, Y)
    assert anatomy.scope == "batch"
    torch.testing.assert_close(anatomy.ratio, whole.ratio)


class Weighted(hs.PairwiseObjective):
    """InfoNCE's decoupled form in an inner product of its own."""

    def metric(self, rows: Tensor) -> Tensor:
        return torch.linspace(0.2, 2, rows.shape[1]).to(rows)

    def per_anchor(self, positive, negatives, mask):
        return torch.logsumexp(negatives.masked_fill(~mask, -math.inf), dim=1) - positive


@pytest.mark.parametrize("scope", ["anchor", "batch"])
def test_an_inner_product_of_ones_own_is_not_hidden(scope):
    anatomy = dissect(Weighted(), X, Y, scope=scope)
    similarity = (X * torch.linspace(0.2, 2, 6)) @ Y.T
    shares = torch.softmax(similarity.fill_diagonal_(-math.inf), dim=1) / 12
    torch.testing.assert_close(anatomy.coefficients.cross, shares)
    assert anatomy.scope == "batch" and anatomy.residual.mean() > 0.01


@pytest.mark.parametrize("degrees", [10, 60, 115, 170])
def test_dissipation_of_arccon_is_its_closed_form_at_any_angle(degrees):
    shift, tau = math.radians(degrees), 0.3
    anatomy = dissect(hs.create_objective("arccon", angle=shift, temperature=tau), X, Y)
    positive = torch.cos(torch.arccos((X * Y).sum(dim=1)) + shift) / tau
    others = torch.logsumexp((X @ Y.T).fill_diagonal_(-math.inf) / tau, dim=1)
    torch.testing.assert_close(anatomy.dissipation, 1 / (1 + torch.exp(positive - others)))


def test_a_positive_that_is_an_angle_goes_to_the_antipode():
    anatomy = dissect(hs.create_objective("geodesic", temperature=1.0), X, Y)
    assert "positive at the antipode" in anatomy.conventions
    columns = torch.cat([(X @ Y.T), (X @ X.T)], dim=1).clamp(-1, 1).arccos().neg()
    own = torch.eye(12, dtype=torch.bool).repeat(1, 2)
    others = torch.logsumexp(columns.masked_fill(own, -math.inf), dim=1)
    alone = [torch.sigmoid(others - positive) for positive in (columns.diagonal(), torch.tensor(-math.pi))]
    torch.testing.assert_close(anatomy.dissipation, alone[0] / alone[1])
