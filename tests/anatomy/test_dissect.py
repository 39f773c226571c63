"""Anatomies of our losses and of other people's, against each other and against autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.anatomy.dissect import rotated
from hypersphere.geometry import tangent, unit
from hypersphere.testing.example import some_labels, views
from tests import cases


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.PAIRWISE))
def test_the_parts_add_up_to_autograds_tangential_gradient(name: str, params: dict[str, Any]) -> None:
    if name == "mbarlow" and params.get("stage") in ("original", "+gd"):
        params = {**params, "weight": 1.0}  # then its positive is an ordinary inner product
    z1, z2 = views(6, 4)
    labels = some_labels(6)
    objective = hs.create_objective(name, **params).double()
    parts = hs.dissect(objective, z1, z2, labels, scope="batch").parts(raw=True)
    x = z1.clone().requires_grad_()
    (grad,) = torch.autograd.grad(objective(x, z2, labels), [x])
    torch.testing.assert_close(parts["alignment"] + parts["uniformity"], grad, rtol=1e-8, atol=1e-10)


def test_another_librarys_loss_is_taken_apart() -> None:
    from pytorch_metric_learning.losses import NTXentLoss, SelfSupervisedLoss

    z1, z2 = views(6, 4)
    theirs = hs.dissect(SelfSupervisedLoss(NTXentLoss(temperature=0.5)), z1, z2)
    ours = hs.dissect(hs.create_objective("ntxent"), z1, z2, scope="batch")
    torch.testing.assert_close(theirs.coefficients.negative, ours.coefficients.negative, rtol=1e-5, atol=1e-7)
    assert theirs.rotation_invariant
    assert "antipode" in theirs.method


def test_a_loss_of_sentence_transformers_is_taken_apart() -> None:
    """Its ranking loss with a scale of 20 is InfoNCE at τ = 1/20; with all four directions it is something else."""
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    z1, z2 = views(7, 4)
    ranking = losses.MultipleNegativesRankingLoss(torch.nn.Identity(), scale=20.0)
    theirs = hs.dissect(lambda a, b: ranking.compute_loss_from_embeddings([a, b], None), z1, z2)
    ours = hs.dissect(hs.create_objective("infonce", temperature=0.05), z1, z2, scope="batch")
    torch.testing.assert_close(theirs.coefficients.cross, ours.coefficients.cross, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(theirs.coefficients.positive, ours.coefficients.positive, rtol=1e-9, atol=1e-12)
    assert theirs.rotation_invariant and theirs.residual.max() < 1e-6
    assert theirs.coefficients.same.abs().max() < 1e-12
    directions = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
    wide = losses.MultipleNegativesRankingLoss(torch.nn.Identity(), directions=directions)
    anatomy = hs.dissect(lambda a, b: wide.compute_loss_from_embeddings([a, b], None), z1, z2)
    assert anatomy.coefficients.same.abs().max() > 1e-3
    assert anatomy.residual.max() < 1e-6


def test_a_loss_that_computes_in_float32_is_no_worse_than_its_precision() -> None:
    z1, z2 = views(7, 4)
    coarse = hs.create_objective("infonce", temperature=0.2)
    anatomy = hs.dissect(lambda a, b: coarse(a.float(), b.float()), z1, z2)
    known = hs.dissect(coarse, z1, z2, scope="batch")
    assert anatomy.rotation_invariant
    torch.testing.assert_close(anatomy.coefficients.cross, known.coefficients.cross, rtol=1e-3, atol=1e-6)
    assert "cannot express" not in str(anatomy)


def test_cloa_is_its_base_and_a_residual_towards_its_anchors() -> None:
    z1, z2 = views(6, 4)
    labels = torch.tensor([0, 1, 0, 1, -1, -1])
    cloa = hs.create_objective("cloa", base="infonce", num_classes=2, dim=4, weight=3.0)
    anatomy = hs.dissect(cloa, z1, z2, labels, scope="batch")
    base = hs.dissect(hs.create_objective("infonce"), z1, z2, scope="batch")
    torch.testing.assert_close(anatomy.coefficients.cross, base.coefficients.cross, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(anatomy.ratio, base.ratio, rtol=1e-8, atol=0)
    assert not anatomy.rotation_invariant
    h = unit(z1)
    pull = tangent(-3 / 8 * cloa.anchors.double()[labels[:4]], h[:4])  # eight labelled rows in both views
    whole = sum(base.parts().values())[:4] + pull
    share = pull.norm(dim=1) / (whole.norm(dim=1) + (whole - pull).norm(dim=1))
    torch.testing.assert_close(anatomy.residual[:4], share, rtol=1e-6, atol=0)
    assert share.min() > 0.01 and anatomy.residual[4:].max() < 1e-6
    assert hs.dissect(cloa, z1, z2).rotation_invariant  # without labels it is its base


def test_a_loss_tied_to_its_dimensions_is_refused_with_the_reason() -> None:
    head = torch.nn.Linear(4, 3).double()
    with pytest.raises(ValueError, match="tied to their 4 dimensions"):
        hs.dissect(lambda a, b: (head(a) - head(b)).pow(2).mean(), *views(6, 4))


def test_a_loss_with_parameters_of_its_own_is_measured_in_double() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor([[1 / 3]]))

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return -torch.nn.functional.linear((unit(a) * unit(b)).sum(dim=1, keepdim=True), self.scale).sum()

    loss = Scaled()
    anatomy = hs.dissect(loss, *views(6, 4))
    torch.testing.assert_close(anatomy.coefficients.positive, torch.full((6,), -loss.scale.double().item()).double())
    assert loss.scale.dtype == torch.float32


def test_a_lambda_and_its_dissipation() -> None:
    z1, z2 = views(6, 4)

    def infonce(a: Tensor, b: Tensor) -> Tensor:
        s = unit(a) @ unit(b).T / 0.1
        return (torch.logsumexp(s, dim=1) - s.diagonal()).sum()

    anatomy = hs.dissect(infonce, z1, z2)
    assert anatomy.name == "infonce" and hs.dissect(infonce, z1, z2, name="mine").name == "mine"
    known = hs.dissect(hs.create_objective("infonce", temperature=0.1), z1, z2)
    torch.testing.assert_close(anatomy.coefficients.cross, known.coefficients.cross, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(anatomy.dissipation, known.dissipation, rtol=1e-7, atol=1e-12)
    divided = hs.dissect(lambda a, b: infonce(a, b) / a.shape[1], z1, z2)  # rows are made longer to measure it
    torch.testing.assert_close(divided.dissipation, known.dissipation, rtol=1e-7, atol=1e-12)


def test_a_loss_that_is_no_function_of_inner_products_is_said_so() -> None:
    z1, z2 = views(6, 4)
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)

    def lopsided(a: Tensor, b: Tensor) -> Tensor:
        return ((unit(a)[:, :4] - unit(b)[:, :4]) ** 2 * weights).sum()

    anatomy = hs.dissect(lopsided, z1, z2)
    assert not anatomy.rotation_invariant
    assert anatomy.residual.max() > 0.1
    assert "not rotation-invariant" in str(anatomy)
    barlow = hs.dissect(hs.create_objective("barlow", normalization="unit", weight=30.0), z1, z2)
    assert not barlow.rotation_invariant


@pytest.mark.parametrize("dim", [2, 5, 768])
def test_the_rotation_is_one(dim: int) -> None:
    turn = rotated(torch.eye(dim, dtype=torch.float64))
    torch.testing.assert_close(turn @ turn.T, torch.eye(dim, dtype=torch.float64), rtol=0, atol=1e-12)
    assert torch.linalg.det(turn).item() == pytest.approx(1)
    assert (turn.diagonal() < 1 - 1e-3).all()  # it leaves no direction alone
    rows = views(3, dim)[0]
    torch.testing.assert_close(rotated(rows), rows @ turn, rtol=0, atol=1e-12)


def test_what_is_tied_to_coordinates_is_seen_in_many_dimensions_and_float32() -> None:
    z1, z2 = views(64, 768)
    weights = torch.linspace(1, 4, 768)

    def lopsided(a: Tensor, b: Tensor) -> Tensor:
        return ((unit(a.float()) - unit(b.float()))[:, :768] ** 2 * weights).sum()

    def absolute(a: Tensor, b: Tensor) -> Tensor:
        return (unit(a.float()) - unit(b.float())).abs().sum()

    infonce = hs.create_objective("infonce")
    assert not hs.dissect(lopsided, z1, z2, most_anchors=1).rotation_invariant
    assert not hs.dissect(absolute, z1, z2, most_anchors=1).rotation_invariant
    assert not hs.dissect(hs.create_objective("barlow"), z1, z2, most_anchors=1).rotation_invariant
    assert hs.dissect(lambda a, b: infonce(a.float(), b.float()), z1, z2, most_anchors=1).rotation_invariant


@pytest.mark.parametrize("form", ["out", "in"])
def test_rows_of_the_anchors_class_pull_and_do_not_push(form: str) -> None:
    """Against loops: what dissipates is the softmax's share of the true negatives."""
    z1, z2 = views(9, 4)
    labels, tau = torch.tensor([0, 1, 0, -1, 1, 2, 0, -1, 1]), 0.3
    h, other = unit(z1), unit(z2)
    anatomy = hs.dissect(
        hs.create_objective("supcon", temperature=tau, form=form), z1, z2, labels, negatives=z1[:2] + 1
    )
    columns = torch.cat([other, h, unit(z1[:2] + 1)])
    for i in range(9):
        own = {i, i + 9}
        kin = {j for j in range(18) if labels[i] >= 0 and labels[j % 9] == labels[i]} - own
        foes = [j for j in range(20) if j not in own | kin]
        powers = torch.exp(columns @ h[i] / tau)
        mass = powers[[i, *kin, *foes]].sum()
        share = powers[foes] / mass
        assert anatomy.dissipation[i].item() == pytest.approx(share.sum().item())
        torch.testing.assert_close(anatomy.weight[i, foes], share / share.sum() / tau)
        assert (anatomy.weight[i, [*kin, *own]] == 0).all()
        assert anatomy.ratio[i].item() == pytest.approx(1)
        hardest = max(foes, key=lambda j: float(powers[j]))
        assert anatomy.hardest_share[i].item() == pytest.approx((powers[hardest] / powers[foes].sum()).item())
    assert 0 < anatomy.dissipation.min() < anatomy.dissipation.max() < 1


def test_a_wrapped_objective_knows_the_rows_of_the_anchors_class_too() -> None:
    z1, z2 = views(8, 4)
    labels = torch.arange(8) % 3
    wrapped = hs.create_objective("cloa", base="supcon", num_classes=3, dim=4)
    anatomy, plain = (hs.dissect(each, z1, z2, labels, scope="batch") for each in (wrapped, wrapped.base))
    torch.testing.assert_close(anatomy.coefficients.negative, plain.coefficients.negative, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(anatomy.ratio, plain.ratio, rtol=1e-5, atol=1e-7)
    assert (anatomy.dissipation > 0).all() and (anatomy.dissipation < 1.2).all()
    alone = hs.dissect(hs.create_objective("cloa", base="ntxent", num_classes=3, dim=4), z1, z2, labels)
    assert alone.coefficients.same_label is None


def test_bad_questions_get_one_sentence() -> None:
    with pytest.raises(ValueError, match="scope must be"):
        hs.dissect(hs.create_objective("infonce"), torch.eye(3), torch.eye(3), scope="row")
    with pytest.raises(ValueError, match="differ in shape"):
        hs.dissect(hs.create_objective("infonce"), torch.eye(3), torch.eye(4))
