"""Anatomies against the closed forms of the papers, against each other, and against autograd."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.anatomy import closed_form, list_closed_forms, ratio_interval
from hypersphere.geometry import tangent, unit
from hypersphere.testing.example import some_labels, views
from tests import cases

CLOSED: dict[str, dict[str, Any]] = {
    "infonce": {"temperature": 0.2},
    "arccon": {"temperature": 0.2, "angle": 0.3},
    "dcl": {"temperature": 0.3},
    "dcl_plus": {"temperature": 0.3},
    "mpt": {"margin": 0.5},
    "met": {"margin": 0.5},
    "mat": {"margin": 0.5},
    "dhel": {"temperature": 0.4},
    "paradigm": {},
}


def angles(name: str, z1: Tensor, z2: Tensor) -> tuple[Tensor, Tensor]:
    """Angle of the positive (N,) and of the other instances (N, N-1), in the view the objective looks at."""
    h, g = unit(z1), unit(z2)
    keys = h if name == "dhel" else g
    off = ~torch.eye(len(h), dtype=torch.bool)
    return (h * g).sum(dim=1).arccos(), (h @ keys.T)[off].reshape(len(h), -1).arccos()


def test_every_closed_form_is_compared() -> None:
    assert set(list_closed_forms()) == set(CLOSED)


@pytest.mark.parametrize("name", CLOSED)
def test_dissection_equals_the_closed_form(name: str) -> None:
    params = CLOSED[name]
    for seed in range(5):
        z1, z2 = views(9, 4, seed)
        anatomy = hs.dissect(hs.create_objective(name, **params), z1, z2)
        expected = closed_form(name)(*angles(name, z1, z2), **params)
        off = ~torch.eye(9, dtype=torch.bool)
        block = anatomy.coefficients.same if name == "dhel" else anatomy.coefficients.cross
        torch.testing.assert_close(anatomy.dissipation, expected.dissipation, rtol=1e-10, atol=1e-10)
        product = expected.dissipation[:, None] * expected.weight
        torch.testing.assert_close(block[off].reshape(9, 8), product, rtol=1e-10, atol=1e-10)
        moving = expected.dissipation > 0
        torch.testing.assert_close(anatomy.ratio[moving], expected.ratio[moving], rtol=1e-9, atol=1e-10)
        open_gates = anatomy.weight[moving].sum(dim=1)
        torch.testing.assert_close(open_gates, expected.weight[moving].sum(dim=1), rtol=1e-9, atol=1e-10)


def test_full_rows_of_table_two() -> None:
    """MHE, MHS and KCL in the scope of the batch, with the spec's formulas."""
    z1, z2 = views(7, 4)
    h, g = unit(z1), unit(z2)
    a, size = h @ h.T, 7
    off = 1 - torch.eye(size, dtype=torch.float64)
    mhe = hs.dissect(hs.create_objective("mhe", weight=3.0), z1, z2, scope="batch")
    powers = (2 * a).exp() * off
    half = powers.sum() / 2
    torch.testing.assert_close(mhe.coefficients.same, 2 * 3 * powers / half)
    torch.testing.assert_close(mhe.ratio, half / (3 * size * powers.sum(dim=1)))
    kcl = hs.dissect(hs.create_objective("kcl", gamma=5.0, t=1.5), z1, z2, scope="batch")
    kernel = torch.exp(-1.5 * (2 - 2 * a)) * off
    torch.testing.assert_close(kcl.coefficients.same, 4 * 5 * 1.5 * kernel / (size * (size - 1)))
    own = torch.exp(-1.5 * (2 - 2 * (h * g).sum(dim=1)))
    torch.testing.assert_close(kcl.ratio, (size - 1) * own / (2 * 5 * kernel.sum(dim=1)))
    for anatomy in (mhe, kcl):
        torch.testing.assert_close(anatomy.dissipation, torch.ones(size, dtype=torch.float64))


@pytest.mark.parametrize(("name", "params"), **cases.named([c for c in cases.SMOOTH if "both" not in str(c)]))
def test_private_coordinates_find_what_the_similarities_say(name: str, params: dict[str, Any]) -> None:
    """The method for any callable, on our own objectives hidden behind a function, also with N > D."""
    z1, z2 = views(7, 3)
    objective = hs.create_objective(name, **params).double()
    labels = some_labels(7)
    known = hs.dissect(objective, z1, z2, labels, scope="batch").coefficients
    found = hs.dissect(lambda a, b: objective(a, b, labels), z1, z2, labels)
    assert found.scope == "batch"
    scale = 1 + known.negative.abs().max()
    torch.testing.assert_close(found.coefficients.positive, known.positive, rtol=1e-7, atol=1e-8 * scale.item())
    torch.testing.assert_close(found.coefficients.negative, known.negative, rtol=1e-7, atol=1e-8 * scale.item())
    assert found.rotation_invariant
    assert found.residual.max() < 1e-6


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.PAIRWISE))
def test_the_parts_add_up_to_autograds_tangential_gradient(name: str, params: dict[str, Any]) -> None:
    if name == "mbarlow" and params.get("stage") in ("original", "+gd"):
        params = {**params, "weight": 1.0}  # then its positive is an ordinary inner product
    z1, z2 = views(6, 4)
    labels = some_labels(6)
    objective = hs.create_objective(name, **params).double()
    parts = hs.dissect(objective, z1, z2, labels, scope="batch").parts(torch.linalg.vector_norm(z1, dim=1))
    x = z1.clone().requires_grad_()
    (slope,) = torch.autograd.grad(objective(x, z2, labels), [x])
    torch.testing.assert_close(parts["alignment"] + parts["uniformity"], slope, rtol=1e-8, atol=1e-10)


def test_another_librarys_loss_is_taken_apart() -> None:
    from pytorch_metric_learning.losses import NTXentLoss, SelfSupervisedLoss

    z1, z2 = views(6, 4)
    theirs = hs.dissect(SelfSupervisedLoss(NTXentLoss(temperature=0.5)), z1, z2)
    ours = hs.dissect(hs.create_objective("ntxent"), z1, z2, scope="batch")
    torch.testing.assert_close(theirs.coefficients.negative, ours.coefficients.negative, rtol=1e-5, atol=1e-7)
    assert theirs.rotation_invariant
    assert "antipode" in theirs.method


def test_a_lambda_and_its_dissipation() -> None:
    z1, z2 = views(6, 4)

    def infonce(a: Tensor, b: Tensor) -> Tensor:
        s = unit(a) @ unit(b).T / 0.1
        return (torch.logsumexp(s, dim=1) - s.diagonal()).sum()

    found = hs.dissect(infonce, z1, z2)
    known = hs.dissect(hs.create_objective("infonce", temperature=0.1), z1, z2)
    torch.testing.assert_close(found.coefficients.cross, known.coefficients.cross, rtol=1e-7, atol=1e-9)
    # the antipode is at -1, not at -∞, where the positive still has its e^{-1/τ} in the denominator
    others = (torch.exp(unit(z1) @ unit(z2).T / 0.1) * (1 - torch.eye(6))).sum(dim=1)
    expected = known.dissipation * (others + math.exp(-10)) / others
    torch.testing.assert_close(found.dissipation, expected, rtol=1e-8, atol=1e-12)


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


def test_the_numbers_and_the_words() -> None:
    z1, z2 = views(32, 8)
    hard = hs.dissect(hs.create_objective("infonce", temperature=0.01), z1, z2)
    soft = hs.dissect(hs.create_objective("infonce", temperature=1.0), z1, z2)
    assert hard.hardest_share.mean() > 0.9 > 0.2 > soft.hardest_share.mean()
    assert 1 <= hard.effective_negatives.mean() < 2 < 20 < soft.effective_negatives.mean() <= 31
    stopped = hs.dissect(hs.create_objective("mpt", margin=0.01), torch.eye(5), torch.eye(5))
    assert stopped.numbers()["anchors with gradient"] == 0
    assert "has stopped here" in str(stopped)
    assert "Conventions" in str(hard)


def test_lemma_one_against_direct_geometry() -> None:
    """A step of the anchor in its tangent plane, and the distance to the positive's projection before and after."""
    generator = torch.Generator().manual_seed(0)
    h, y, n = (unit(torch.randn(4000, 4, generator=generator, dtype=torch.float64)) for _ in range(3))
    p, q = tangent(y, h), tangent(n, h)
    for step in (0.05, 0.3, 1.0, 3.0):
        low, high = ratio_interval(h, y, n, step)
        for ratio in (-1.0, 0.0, 0.5, 1.0, 1.5, 3.0, 10.0):
            moved = step * (ratio * p - q)
            closer = (p - moved).norm(dim=1) < p.norm(dim=1)
            inside = (low < ratio) & (ratio < high)
            assert torch.equal(closer, inside)


def test_advice_recovers_the_planted_edge() -> None:
    """Views in which every negative is orthogonal and the positive at a chosen angle."""
    for cosine in (0.3, 0.6, 0.9):
        x = torch.eye(65, dtype=torch.float64)[:64]
        y = cosine * x + math.sqrt(1 - cosine**2) * torch.eye(65, dtype=torch.float64)[64]
        assert hs.anatomy.advise("mpt", x, y).value == pytest.approx(cosine)
        planted = math.sqrt(2) - math.sqrt(2 - 2 * cosine)
        assert hs.anatomy.advise("met", x, y).value == pytest.approx(planted)
        assert hs.anatomy.advise("mat", x, y).value == pytest.approx(math.pi / 2 - math.acos(cosine))
        advice = hs.anatomy.advise("infonce", x, y)
        assert advice.value * math.log(63) == pytest.approx(cosine, rel=1e-6)
        edge = hs.dissect(hs.create_objective("infonce", temperature=advice.value), x, y)
        assert edge.dissipation.median().item() == pytest.approx(0.5, abs=1e-6)
        assert f"temperature = {advice.value:.4g}" in str(advice)


def test_bad_questions_get_one_sentence() -> None:
    with pytest.raises(ValueError, match="scope must be"):
        hs.dissect(hs.create_objective("infonce"), torch.eye(3), torch.eye(3), scope="row")
    with pytest.raises(ValueError, match="same shape"):
        hs.dissect(hs.create_objective("infonce"), torch.eye(3), torch.eye(4))
    with pytest.raises(ValueError, match="no closed form for 'barlow'"):
        closed_form("barlow")
    with pytest.raises(ValueError, match="advice for"):
        hs.anatomy.advise("kcl", torch.eye(3), torch.eye(3))
    with pytest.raises(ValueError, match="not closer than the negatives"):
        hs.anatomy.advise("mpt", torch.eye(3), -torch.eye(3))
