"""Closed forms, which know angles only, beside what dissect takes from gradients of vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.anatomy import Anatomy, closed_form, form_settings, list_closed_forms
from hypersphere.geometry import unit
from hypersphere.testing.example import views

SIZE = 9
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@dataclass(frozen=True)
class Row:
    """An objective, its parameters, and where its negatives are: "cross", "same" or "both" views.

    extra: further angles that its form reads. measurable: the dissipation apart from the weight; not where a gate
    stands before weights that move with the positive.
    """

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    keys: str = "cross"
    scope: str = "anchor"
    objective: dict[str, Any] = field(default_factory=dict)  # settings that the form does not have
    extra: tuple[str, ...] = ()
    measurable: bool = True

    def create(self) -> Any:
        return hs.create_objective(self.name, **self.params, **self.objective)

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{value}" for value in self.params.values()), self.scope])


def _staged(name: str, *extra: str, **params: Any) -> list[Row]:
    stages = ("original", "+gd", "+r") if name == "mmhs" else ("original", "+gd", "+w", "+r")
    return [
        Row(name, {"stage": stage, **params}, "same", "batch", {"views": "both"}, ("cross", *extra),
            (name, stage) != ("mbarlow", "+gd"))
        for stage in stages
    ]  # fmt: skip


ROWS = [
    Row("infonce", {"temperature": 0.2}),
    Row("ntxent", {"temperature": 0.4}, "both"),
    Row("arccon", {"temperature": 0.2, "angle": 0.3}),
    Row("dcl", {"temperature": 0.3}),
    Row("dcl", {"temperature": 0.3}, "both", objective={"negatives": "both"}),
    Row("dcl_plus", {"temperature": 0.3}),
    Row("mpt", {"margin": 0.5}),
    Row("met", {"margin": 0.5}),
    Row("mat", {"margin": 0.5}),
    *[Row("triplet", {"distance": kind, "margin": 0.5}) for kind in ("dot", "euclidean", "angle")],
    Row("paradigm"),
    Row("align_uniform", {"alpha": 3.0, "t": 1.5, "weight": 0.3}, "cross", "batch", {"pairs": "cross"}),
    Row("align_uniform", {"alpha": 1.0, "t": 3.0, "weight": 0.6}, "same", "batch", {"pairs": "same"}),
    Row("mhe", {"weight": 3.0}, "same", "batch"),
    Row("mhe", {"weight": 3.0}, "same", "batch", {"views": "both"}),
    Row("mhs", {"weight": 0.7}, "same"),
    Row("dhel", {"temperature": 0.4}, "same"),
    Row("dhel", {"temperature": 0.4}, "same", "batch", {"reduction": "sum"}),
    *[Row("kcl", {"kernel": kernel, "t": 1.5, "c": 1.7, "gamma": 5.0}, "same", "batch")
      for kernel in ("gaussian", "log", "imq")],
    Row("kcl", {"kernel": "riesz", "s": -1.3}, "same", "batch"),
    Row("kcl", {"kernel": "gaussian_riesz", "s": 1.3}, "same", "batch"),
    Row("kcl", {"views": "both"}, "same", "batch"),
    Row("kcl", {"kernel": "imq", "gamma": 3.0}, "same", "batch"),
    Row("barlow", {"weight": 1.0}, "same", "batch", {"normalization": "unit"}, ("other",)),
    Row("barlow", {"weight": 30.0}, "same", "batch", {"normalization": "unit"}, ("other",)),
    *_staged("mmhe", temperature=0.2, margin=0.25),
    *_staged("mmhs", margin=0.25, weight=0.8),
    *_staged("mbarlow", "other", temperature=0.2, margin=0.25, weight=1.0),
    *_staged("mbarlow", "other", temperature=0.2, margin=0.25),
    *_staged("mvicreg", temperature=0.2, margin=0.25),
]  # fmt: skip


def rows_of(matrix: Tensor) -> Tensor:
    """(N, N) or (N, 2N) without the columns of the anchor's own instance."""
    off = ~torch.eye(len(matrix), dtype=torch.bool)
    parts = matrix.split(len(matrix), dim=1)
    return torch.cat([part[off].reshape(len(matrix), -1) for part in parts], dim=1)


def form_of(row: Row, z1: Tensor, z2: Tensor) -> hs.anatomy.Components:
    h, g = unit(z1), unit(z2)
    cosines = {"cross": h @ g.T, "same": h @ h.T, "other": g @ g.T}
    angles = {name: rows_of(matrix.clamp(-1, 1).arccos()) for name, matrix in cosines.items()}
    angles["both"] = torch.cat([angles["cross"], angles["same"]], dim=1)
    positive = (h * g).sum(dim=1).arccos()
    settings = form_settings(row.create())
    assert settings.items() >= row.params.items()
    if row.name == "barlow":
        return closed_form(row.name)(positive, angles["other"], **settings)
    more: dict[str, Any] = {name: angles[name] for name in row.extra}
    if row.name == "dhel":
        more["scope"] = row.scope
    return closed_form(row.name)(positive, angles[row.keys], **more, **settings)


def dissected(row: Row, z1: Tensor, z2: Tensor) -> tuple[Anatomy, Tensor]:
    """The anatomy, and its coefficients of the negatives (N, n)."""
    anatomy = hs.dissect(row.create(), z1, z2, scope=row.scope)
    blocks = {"cross": anatomy.coefficients.cross, "same": anatomy.coefficients.same}
    return anatomy, rows_of(torch.cat(list(blocks.values()), dim=1) if row.keys == "both" else blocks[row.keys])


def test_every_closed_form_is_compared() -> None:
    assert {row.name for row in ROWS} | {"vicreg_surrogate"} == set(list_closed_forms())


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_dissection_equals_the_closed_form(row: Row) -> None:
    for seed in range(5):
        z1, z2 = views(SIZE, 4, seed)
        anatomy, coefficients = dissected(row, z1, z2)
        expected = form_of(row, z1, z2)
        product = expected.dissipation[:, None] * expected.weight
        torch.testing.assert_close(coefficients, product, **CLOSE)
        known = (expected.dissipation > 0) & expected.ratio.isfinite()
        pull = -expected.ratio * product.sum(dim=1)
        torch.testing.assert_close(anatomy.coefficients.positive[known], pull[known], **CLOSE)
        if row.measurable:
            torch.testing.assert_close(anatomy.dissipation, expected.dissipation, **CLOSE)
            torch.testing.assert_close(anatomy.ratio[known], expected.ratio[known], rtol=1e-9, atol=1e-10)
            total = anatomy.weight[known].sum(dim=1)
            torch.testing.assert_close(total, expected.weight[known].sum(dim=1), rtol=1e-9, atol=1e-10)


def test_some_gates_are_open_and_some_closed() -> None:
    """Otherwise the comparison above would say nothing of them."""
    for row in ROWS:
        if row.name in ("dcl_plus", "mpt", "met", "mat", "paradigm") or row.params.get("stage") in ("+gd", "+w", "+r"):
            gates = torch.cat([form_of(row, *views(SIZE, 4, seed)).dissipation for seed in range(5)])
            assert set(gates.tolist()) == {0.0, 1.0}, str(row)


def test_row_of_vicreg_is_alignment_and_the_whole_covariance_of_centred_rows() -> None:
    first, second = views(SIZE, 5)
    z1, z2 = torch.cat([first, -first]), torch.cat([second, -second])  # mean 0, also on the sphere
    size, weight = 2 * SIZE, 7.0

    def loss(a: Tensor, b: Tensor) -> Tensor:
        h, g = unit(a), unit(b)
        return (h - g).pow(2).sum(dim=1).mean() + weight / 5 * torch.cov(h.T).pow(2).sum()

    anatomy = hs.dissect(loss, z1, z2)
    h = unit(z1)
    positive = (h * unit(z2)).sum(dim=1).arccos()
    expected = closed_form("vicreg_surrogate")(positive, rows_of((h @ h.T).clamp(-1, 1).arccos()), dim=5, weight=weight)
    torch.testing.assert_close(rows_of(anatomy.coefficients.same), expected.weight, rtol=1e-9, atol=1e-10)
    pull = torch.full((size,), -2 / size, dtype=torch.float64)
    torch.testing.assert_close(anatomy.coefficients.positive, pull, **CLOSE)
    # Each row meets its opposite, so Σ_k a_ik = -1 and the ratio is minus D(N-1)²/(2Nν).
    torch.testing.assert_close(expected.ratio, -torch.full_like(expected.ratio, 5 * 17**2 / (2 * size * weight)))
    torch.testing.assert_close(anatomy.dissipation, expected.dissipation, **CLOSE)


def test_barlows_ratio_is_a_matrix_and_its_projection_is_reported() -> None:
    """Against autograd and plain loops: tangential part of (2/N) A y_i along that of y_i, the rest a residual."""
    z1, z2 = views(6, 4)
    h, g, weight = unit(z1), unit(z2), 30.0
    anatomy = hs.dissect(hs.create_objective("barlow", normalization="unit", weight=weight), z1, z2)
    assert not anatomy.rotation_invariant
    torch.testing.assert_close(anatomy.dissipation, torch.ones(6, dtype=torch.float64))
    correlation = sum(h[i, :, None] * g[i, None, :] for i in range(6)) / 6
    factors = 1 - (1 - weight) * correlation.diagonal()
    for i in range(6):
        inward = torch.eye(4, dtype=torch.float64) - torch.outer(h[i], h[i])
        pull, along = 2 / 6 * inward @ (factors * g[i]), inward @ g[i]
        share = pull @ along / (along @ along)
        assert anatomy.coefficients.positive[i].item() == pytest.approx(-share.item(), rel=1e-8)
        pushes = sum(2 * weight * (g[i] @ g[j]).item() / 36 for j in range(6) if j != i)
        assert anatomy.ratio[i].item() == pytest.approx(share.item() / pushes, rel=1e-8)
        push = sum(2 * weight * (g[i] @ g[j]) / 36 * inward @ h[j] for j in range(6) if j != i)
        rest = (pull - share * along).norm()
        whole, kept = (push - pull).norm(), (push - share * along).norm()
        assert anatomy.residual[i].item() == pytest.approx((rest / (whole + kept)).item(), rel=1e-7)
    assert closed_form("barlow")(*(torch.ones(2), torch.ones(2, 3)), weight=30.0).ratio.isnan().all()


def test_angles_that_one_cannot_be_made_of_are_refused_with_the_reason() -> None:
    for name, reason in (("vicreg", "surrogate"), ("cloa", "anchors"), ("hyperbolic", "lengths"), ("mixup", "mixed")):
        with pytest.raises(ValueError, match=f"no closed form for '{name}' in angles alone: .*{reason}"):
            closed_form(name)
    with pytest.raises(ValueError, match="no closed form for 'infonc'"):
        closed_form("infonc")
    with pytest.raises(ValueError, match="no stage '\\+w'"):
        closed_form("mmhs")(torch.ones(2), torch.ones(2, 3), stage="+w")
    with pytest.raises(ValueError, match="a stage is"):
        closed_form("mmhe")(torch.ones(2), torch.ones(2, 3), stage="gd")
    with pytest.raises(ValueError, match="all anchors"):
        closed_form("dhel")(torch.ones(2), torch.ones(2, 3), scope="batch")
    with pytest.raises(ValueError, match="distance must be"):
        closed_form("triplet")(torch.ones(2), torch.ones(2, 3), distance="cosine")


@pytest.mark.parametrize(
    "name, settings, reason",
    [
        ("infonce", {"symmetric": True}, "symmetric = True, only with False"),
        ("dhel", {"energy": "both"}, "energy = 'both'"),
        ("mhs", {"views": "both"}, "views = 'both'"),
        ("mhe", {"s": 1.0}, "s = 1.0"),
        ("released/mmhe", {}, "no closed form for 'released/mmhe'"),
        ("barlow", {}, "normalization = 'batch', only with 'unit'"),
        ("paradigm", {"weight": "hardest"}, "other than Li's baseline"),
        ("released/paradigm", {}, "no closed form for 'released/paradigm'"),
        ("released/kcl", {"kernel": "log"}, "no closed form for 'released/kcl'"),
        ("siglip", {}, "no closed form for 'siglip'"),
    ],
)
def test_settings_without_a_closed_form_are_refused(name: str, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        form_settings(hs.create_objective(name, **settings))


def test_a_learned_temperature_is_read_as_it_stands() -> None:
    settings = form_settings(hs.create_objective("infonce", temperature=0.2, learnable=True))
    assert settings == {"temperature": pytest.approx(0.2, rel=1e-6)}
