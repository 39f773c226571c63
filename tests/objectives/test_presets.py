"""Every preset against a plain loop over what the peer it is named after computes with its defaults."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import views
from tests.reference import (
    GOLDEN_RELEASED,
    Matrix,
    Vector,
    dot,
    finite_difference,
    golden_views,
    logsumexp,
    mean,
    mixcse,
    mixed_with_the_next,
    softplus,
    unit_rows,
)

Peer = Callable[[Matrix, Matrix, Any], float]


def picking_the_own_key(rows: Matrix, keys: Matrix, scale: float) -> float:
    """Mean cross-entropy of the logits scale · row_i·key_j with the label i."""
    losses = []
    for i, row in enumerate(rows):
        logits = [scale * dot(row, key) for key in keys]
        losses.append(logsumexp(logits) - logits[i])
    return mean(losses)


def simcse(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """Cosines over .05, one direction, mean over the batch."""
    return picking_the_own_key(unit_rows(z1), unit_rows(z2), 1 / 0.05)


def multiple_negatives_ranking(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """Cosines times 20, query to document only."""
    return picking_the_own_key(unit_rows(z1), unit_rows(z2), 20.0)


def clip(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """Half of image to text and of text to image, one learned scale for both."""
    x, y, scale = unit_rows(z1), unit_rows(z2), 1 / objective.temperature.item()
    return (picking_the_own_key(x, y, scale) + picking_the_own_key(y, x, scale)) / 2


def siglip(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """-log sigmoid(± (scale · cosine + bias)) of every pair, the sum divided by the batch."""
    x, y = unit_rows(z1), unit_rows(z2)
    scale, bias = 1 / objective.temperature.item(), objective.bias.item()
    total = 0.0
    for i, row in enumerate(x):
        for j, key in enumerate(y):
            sign = 1.0 if i == j else -1.0
            total += softplus(-sign * (scale * dot(row, key) + bias))
    return total / len(x)


def stacked(z1: Matrix, z2: Matrix) -> list[tuple[float, Vector]]:
    """Of each of the 2N stacked rows: the cosine with its other view, and those with the 2N-2 other rows."""
    rows, size = unit_rows(z1) + unit_rows(z2), len(z1)
    cosines = []
    for i, row in enumerate(rows):
        partner = (i + size) % (2 * size)
        others = [dot(row, rows[a]) for a in range(2 * size) if a not in (i, partner)]
        cosines.append((dot(row, rows[partner]), others))
    return cosines


def ntxent(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """Temperature .5, 2N-1 terms, mean over 2N."""
    losses = []
    for positive, others in stacked(z1, z2):
        logits = [positive / 0.5] + [other / 0.5 for other in others]
        losses.append(logsumexp(logits) - positive / 0.5)
    return mean(losses)


def lightly_dcl(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """Temperature .1, one logarithm over the 2N-2 negatives of both views (lightly 1.5.21 and later)."""
    return mean([logsumexp([other / 0.1 for other in others]) - positive / 0.1 for positive, others in stacked(z1, z2)])


def mises_fisher_weights(z1: Matrix, z2: Matrix) -> Vector:
    """2 - N softmax_i(cosine/.5) of each positive pair."""
    powers = [math.exp(dot(x, y) / 0.5) for x, y in zip(unit_rows(z1), unit_rows(z2), strict=True)]
    return [2 - len(powers) * power / math.fsum(powers) for power in powers]


def weighed_dcl(z1: Matrix, z2: Matrix, weights: Vector) -> float:
    losses = []
    for i, (positive, others) in enumerate(stacked(z1, z2)):
        losses.append(logsumexp([other / 0.1 for other in others]) - weights[i % len(weights)] * positive / 0.1)
    return mean(losses)


def lightly_dclw(z1: Matrix, z2: Matrix, objective: Any) -> float:
    return weighed_dcl(z1, z2, mises_fisher_weights(z1, z2))


def columns(z: Matrix) -> Matrix:
    """The features, each a list over the batch, with mean 0."""
    centred = []
    for k in range(len(z[0])):
        column = [row[k] for row in z]
        centre = mean(column)
        centred.append([value - centre for value in column])
    return centred


def lightly_barlow(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """Batch normalisation (biased variance, eps 1e-5), correlation over N, λ = .005 off the diagonal."""
    size, total = len(z1), 0.0
    first, second = (
        [[value / math.sqrt(dot(column, column) / size + 1e-5) for value in column] for column in columns(z)]
        for z in (z1, z2)
    )
    for k, one in enumerate(first):
        for j, two in enumerate(second):
            correlation = dot(one, two) / size
            total += (correlation - 1) ** 2 if k == j else 5e-3 * correlation**2
    return total


def lightly_vicreg(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """25 MSE + 25 (half of both hinges on the standard deviations) + 1 (both off-diagonal covariances over D)."""
    size, dim = len(z1), len(z1[0])
    squares = [(a - b) ** 2 for x, y in zip(z1, z2, strict=True) for a, b in zip(x, y, strict=True)]
    total = 25 * math.fsum(squares) / (size * dim)
    for z in (z1, z2):
        features = columns(z)
        for k, one in enumerate(features):
            deviation = math.sqrt(dot(one, one) / (size - 1) + 1e-4)
            total += 25 * 0.5 * max(0.0, 1 - deviation) / dim
            for j, two in enumerate(features):
                if k != j:
                    total += (dot(one, two) / (size - 1)) ** 2 / dim
    return total


def released_dhel(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """-log( e^{positive/.3} / (energy within the first view · energy within the second) ), mean over the batch."""
    x, y = unit_rows(z1), unit_rows(z2)
    losses = []
    for i in range(len(x)):
        product = 1.0
        for view in (x, y):
            product *= math.fsum(math.exp(dot(view[i], view[j]) / 0.3) for j in range(len(view)) if j != i)
        losses.append(-math.log(math.exp(dot(x[i], y[i]) / 0.3) / product))
    return mean(losses)


def released_kcl(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """-2 mean e^{-2q} of the positives + 16 (mean e^{-2q} of the pairs i<j of one view, and of the other)."""

    def closeness(a: Vector, b: Vector) -> float:
        return math.exp(-2 * math.fsum((p - q) ** 2 for p, q in zip(a, b, strict=True)))

    x, y = unit_rows(z1), unit_rows(z2)
    total = -2 * mean([closeness(a, b) for a, b in zip(x, y, strict=True)])
    for view in (x, y):
        total += 16 * mean([closeness(view[i], view[j]) for i in range(len(view)) for j in range(i)])
    return total


def released_mixcse(z1: Matrix, z2: Matrix, objective: Any) -> float:
    return mixcse(z1, z2, (mixed_with_the_next(z1, 0.2), mixed_with_the_next(z2, 0.2)), 0.05)


def gist(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """One softmax at .01 over query-document, query-query and document-document pairs below the guide's own pair."""
    return all_pairs(z1, z2, 0.01, 0.0, ("cross", "same", "other"), guide_of(z1), guide_of(z2))


def qwen3(z1: Matrix, z2: Matrix, objective: Any) -> float:
    """The same at .1, its own cosines deciding: dropped if .1 above the positive's, document pairs always kept."""
    return all_pairs(z1, z2, 0.1, -0.1, ("cross", "same"), z1, z2)


def guide_of(z: Matrix) -> Matrix:
    return [row[:3] for row in z]


def all_pairs(
    z1: Matrix, z2: Matrix, tau: float, margin: float, judged: tuple[str, ...], guide1: Matrix, guide2: Matrix
) -> float:
    x, y, gx, gy = unit_rows(z1), unit_rows(z2), unit_rows(guide1), unit_rows(guide2)
    losses = []
    for i in range(len(x)):
        logits = [dot(x[i], y[i]) / tau]
        for j in range(len(x)):
            for kind, a, b, ga, gb in (("cross", x, y, gx, gy), ("same", x, x, gx, gx), ("other", y, y, gy, gy)):
                dropped = kind in judged and dot(ga[i], gb[j]) > dot(gx[i], gy[i]) - margin
                if j != i and not dropped:
                    logits.append(dot(a[i], b[j]) / tau)
        losses.append(logsumexp(logits) - logits[0])
    return mean(losses)


PEERS: dict[tuple[str, str], Peer] = {
    ("simcse", "infonce"): simcse,
    ("mixcse", "released/mixcse"): released_mixcse,
    ("simclr", "ntxent"): ntxent,  # as the paper writes it; the authors' code: see below
    ("lightly", "ntxent"): ntxent,
    ("lightly", "dcl"): lightly_dcl,
    ("lightly", "dclw"): lightly_dclw,
    ("lightly", "barlow"): lightly_barlow,
    ("lightly", "vicreg"): lightly_vicreg,
    ("sentence-transformers", "infonce"): multiple_negatives_ranking,
    ("open_clip", "infonce"): clip,
    ("open_clip", "siglip"): siglip,
    ("gist", "guided"): gist,
    ("qwen3", "guided"): qwen3,
    ("dhel-kcl", "dhel"): released_dhel,
    ("dhel-kcl", "kcl"): released_kcl,
    ("dhel-kcl", "released/kcl"): released_kcl,
}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("preset", "name"), hs.list_presets(), ids=["-".join(pair) for pair in hs.list_presets()])
def test_a_preset_computes_what_its_peer_computes(preset: str, name: str, seed: int) -> None:
    z1, z2 = views(6 + seed, 4 + seed, seed)
    objective = hs.create_objective(name, preset=preset).double()
    expected = PEERS[preset, name](z1.tolist(), z2.tolist(), objective)
    guide = {"guide": (z1[:, :3], z2[:, :3])} if "guide" in objective.needs else {}
    assert objective(z1, z2, **guide).item() == pytest.approx(expected, rel=1e-9)


def test_there_is_no_peer_without_a_preset() -> None:
    assert sorted(PEERS) == sorted(hs.list_presets())


def test_vicreg_is_compared_with_hinges_open_and_closed() -> None:
    """Some standard deviations above 1 and some below, so that the comparison above sees both."""
    z1, z2 = views(6, 4)
    deviations = torch.cat([z1.std(dim=0), z2.std(dim=0)])
    assert 0 < (deviations < 1).sum() < len(deviations)


def test_the_code_of_simclr_is_twice_the_loss_of_its_paper() -> None:
    """The code adds the means of the two views' cross-entropies where the paper averages over 2N anchors."""
    z1, z2 = views(6, 4)
    total = 0.0
    for x, y in ((unit_rows(z1), unit_rows(z2)), (unit_rows(z2), unit_rows(z1))):
        losses = []
        for i, row in enumerate(x):
            logits = [dot(row, key) / 0.5 for key in y] + [dot(row, x[j]) / 0.5 for j in range(len(x)) if j != i]
            losses.append(logsumexp(logits) - logits[i])
        total += mean(losses)
    paper = hs.create_objective("ntxent", preset="simclr")(z1, z2).item()
    assert total == pytest.approx(2 * paper, rel=1e-9)


def test_open_clip_starts_from_its_models_scale_and_bias_and_learns_the_logarithm() -> None:
    clip_loss, siglip_loss = (hs.create_objective(name, preset="open_clip") for name in ("infonce", "siglip"))
    assert -clip_loss.log_temperature.item() == pytest.approx(math.log(1 / 0.07), rel=1e-6)
    assert -siglip_loss.log_temperature.item() == pytest.approx(math.log(10), rel=1e-6)
    assert siglip_loss.bias.item() == -10
    assert {name for name, _ in clip_loss.named_parameters()} == {"log_temperature"}
    assert {name for name, _ in siglip_loss.named_parameters()} == {"log_temperature", "bias"}


def test_lightly_does_not_differentiate_the_weights_of_dclw() -> None:
    z1, z2 = views(5, 4)
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    grads = torch.autograd.grad(hs.create_objective("dclw", preset="lightly")(a, b), [a, b])
    weights = mises_fisher_weights(z1.tolist(), z2.tolist())
    expected = finite_difference(lambda x, y: weighed_dcl(x, y, weights), z1.numpy(), z2.numpy())
    moving = finite_difference(lambda x, y: lightly_dclw(x, y, None), z1.numpy(), z2.numpy())
    for grad, frozen, free in zip(grads, expected, moving, strict=True):
        np.testing.assert_allclose(grad.numpy(), frozen, atol=1e-7)
        assert np.abs(grad.numpy() - np.asarray(free)).max() > 1e-2


RELEASED: list[tuple[str, str, dict[str, Any]]] = [
    ("dhel_both", "dhel", {}),
    ("dhel_anchor", "dhel", {"energy": "anchor"}),
    ("kcl_gaussian", "released/kcl", {}),
    ("kcl_log", "released/kcl", {"kernel": "log"}),
    ("kcl_imq", "released/kcl", {"kernel": "imq"}),
    ("kcl_riesz_s-1", "released/kcl", {"kernel": "riesz", "s": -1.0}),
    ("kcl_gaussian_riesz_s1", "released/kcl", {"kernel": "gaussian_riesz", "s": 1.0}),
]


@pytest.mark.parametrize(("row", "name", "params"), RELEASED, ids=[row for row, *_ in RELEASED])
def test_golden_values_of_the_released_dhel_and_kcl(row: str, name: str, params: dict[str, Any]) -> None:
    z1, z2 = (torch.as_tensor(z) for z in golden_views())
    value = hs.create_objective(name, preset="dhel-kcl", **params)(z1, z2).item()
    assert value == pytest.approx(GOLDEN_RELEASED[row], abs=1e-9)


def test_the_paper_s_log_kernel_is_half_the_released_one_at_half_the_gamma() -> None:
    """The code's alignment is -log(1+tq) while its energy keeps the half."""
    z1, z2 = (torch.as_tensor(z) for z in golden_views())
    value = hs.create_objective("kcl", preset="dhel-kcl", kernel="log", gamma=8.0)(z1, z2).item()
    assert 2 * value == pytest.approx(GOLDEN_RELEASED["kcl_log"], abs=1e-9)


def test_the_released_riesz_alignment_with_positive_s_is_refused() -> None:
    """GOLDEN_RELEASED has a value for it, but at a perfectly aligned pair it is minus infinity."""
    with pytest.raises(ValueError, match="gaussian_riesz"):
        hs.create_objective("released/kcl", preset="dhel-kcl", kernel="riesz", s=1.0)


def test_a_preset_asked_for_as_an_objective_is_explained() -> None:
    with pytest.raises(ValueError, match=r"'simcse' is a preset: call create_objective\('infonce', preset='simcse'\)"):
        hs.create_objective("simcse")
