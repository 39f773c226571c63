"""Where an author's code or a paper's print differs from the mathematics: under its own name, against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import chord
from hypersphere.testing.example import views
from tests import reference as ref

BATCH = views(7, 4)


def value(name: str, **params: Any) -> float:
    return float(hs.create_objective(name, **params)(*BATCH).item())


def gradients(name: str, **params: Any) -> list[np.ndarray]:
    z1, z2 = (z.clone().requires_grad_() for z in BATCH)
    hs.create_objective(name, **params)(z1, z2).backward()
    return [z1.grad.numpy(), z2.grad.numpy()]


def assert_gradient_of(loop: Callable[[ref.Rows, ref.Rows], float], found: list[np.ndarray]) -> None:
    expected = ref.finite_difference(loop, *(z.numpy() for z in BATCH))
    for grad, difference in zip(found, expected, strict=True):
        np.testing.assert_allclose(grad, difference, atol=1e-7)


# ---------------------------------------------------------------------------------------------------------
# Nie et al.: triplets over the wrong axis with a blanked diagonal, uniformity with 2t added


def released_triplet(name: str, z1: ref.Rows, z2: ref.Rows, margin: float) -> float:
    """For each column of h_i·h'_j the hardest of all rows, where the row of the column itself has been blanked."""
    h, g = ref.unit_rows(z1), ref.unit_rows(z2)
    distance = {"mpt": lambda c: -c, "met": ref.euclidean, "mat": ref.angle_of}[name]
    blank = {"mpt": 0.0, "met": 2.0, "mat": math.pi / 2}[name]  # as distances
    losses = []
    for column in range(len(g)):
        rows = [blank if i == column else distance(ref.dot(h[i], g[column])) for i in range(len(h))]
        losses.append(max(0.0, margin + distance(ref.dot(h[column], g[column])) - min(rows)))
    return ref.mean(losses)


@pytest.mark.parametrize("name", ["mpt", "met", "mat"])
@pytest.mark.parametrize("margin", [0.2, 1.5])
def test_released_triplets_look_along_columns_with_a_blanked_diagonal(name: str, margin: float) -> None:
    found = value(f"released/{name}", margin=margin)
    assert found == pytest.approx(released_triplet(name, *BATCH, margin), rel=1e-9)
    assert found != pytest.approx(value(name, margin=margin), rel=1e-3)
    assert_gradient_of(lambda a, b: released_triplet(name, a, b, margin), gradients(f"released/{name}", margin=margin))


@pytest.mark.parametrize("name", ["mpt", "mat"])
def test_the_released_floor_matters_where_all_negatives_are_beyond_a_right_angle(name: str) -> None:
    simplex = hs.geometry.simplex(5, 4)
    released, paper = (
        hs.create_objective(each, margin=2.5)(simplex, simplex).item() for each in (f"released/{name}", name)
    )
    gap = 0.25 if name == "mpt" else math.acos(-0.25) - math.pi / 2
    assert released - paper == pytest.approx(gap, rel=1e-9)


@pytest.mark.parametrize("distance", ["dot", "euclidean", "angle", "function"])
def test_the_printed_triplet_takes_the_farthest_negative(distance: str) -> None:
    measure = {"dot": lambda c: 1 - c, "euclidean": ref.euclidean, "angle": ref.angle_of, "function": lambda c: -(c**3)}
    h, g = (ref.unit_rows(z) for z in BATCH)
    of = measure[distance]
    expected = []
    for i in range(len(h)):
        far = max(of(ref.dot(h[i], g[j])) for j in range(len(g)) if j != i)
        expected.append(max(0.0, of(ref.dot(h[i], g[i])) - far + 2.5))
    given: Any = (lambda cos: -(cos**3)) if distance == "function" else distance
    found = value("printed/triplet", distance=given, margin=2.5)
    assert found == pytest.approx(ref.mean(expected), rel=1e-9)


def test_met_in_the_code_of_li_is_a_triplet_with_a_floor_under_its_distance() -> None:
    z1, z2 = BATCH
    near = z1 + 1e-4 * z2  # within the floor of .01
    h, g = ref.unit_rows(z1), ref.unit_rows(near)
    expected = []
    for i in range(len(h)):
        d = [math.sqrt(max(2 - 2 * ref.dot(h[i], g[j]), 1e-4)) for j in range(len(g))]
        expected.append(max(0.0, d[i] - min(d[:i] + d[i + 1 :]) + 0.45))
    floored = hs.create_objective("triplet", distance=partial(chord, smallest=1e-4), margin=0.45)
    assert floored(z1, near).item() == pytest.approx(ref.mean(expected), rel=1e-9)


def test_released_uniformity_has_two_t_more_and_the_same_gradient() -> None:
    params = {"alpha": 2.0, "t": 6.0, "weight": 0.3}
    h, g = (ref.unit_rows(z) for z in BATCH)
    potentials = []
    for view in (h, g):
        pairs = [ref.squared_distance(ref.dot(view[i], view[j])) for i in range(len(view)) for j in range(i)]
        potentials.append(math.log(ref.mean([math.exp(-6.0 * q) for q in pairs])))
    alignment = ref.mean([ref.squared_distance(ref.dot(a, b)) for a, b in zip(h, g, strict=True)])
    expected = 0.7 * alignment + 0.3 * (12.0 + ref.mean(potentials))
    assert value("released/align_uniform", **params) == pytest.approx(expected, rel=1e-9)
    for one, two in zip(
        gradients("released/align_uniform", **params), gradients("align_uniform", **params), strict=True
    ):
        np.testing.assert_allclose(one, two, atol=1e-13)


# ---------------------------------------------------------------------------------------------------------
# Koromilas et al.: the logarithmic kernel of the alignment


def test_the_released_log_kernel_aligns_without_the_half() -> None:
    h, g = (ref.unit_rows(z) for z in BATCH)
    alignment = ref.mean([math.log1p(2 * ref.squared_distance(ref.dot(a, b))) for a, b in zip(h, g, strict=True)])
    pairs = [ref.squared_distance(ref.dot(h[i], h[j])) for i in range(len(h)) for j in range(i)]
    energy = -0.5 * ref.mean([math.log1p(2 * q) for q in pairs])
    found = value("released/kcl", kernel="log")
    assert found == pytest.approx(alignment + 16 * energy, rel=1e-9)


@pytest.mark.parametrize("kernel", ["gaussian", "imq", "gaussian_riesz"])
def test_every_other_released_kernel_is_that_of_the_paper(kernel: str) -> None:
    params = {"kernel": kernel, "gamma": 3.0}
    assert value("released/kcl", **params) == value("kcl", **params)
    for one, two in zip(gradients("released/kcl", **params), gradients("kcl", **params), strict=True):
        np.testing.assert_array_equal(one, two)


# ---------------------------------------------------------------------------------------------------------
# Li et al.: the baseline whose ratio acts twice


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


# ---------------------------------------------------------------------------------------------------------
# Li et al.: misprints of the modified objectives


def printed_gradient(name: str, x: ref.Matrix, y: ref.Matrix, stage: str, ratio: float, nu: float) -> ref.Matrix:
    size, width, tau = len(x), len(x[0]), 0.05
    others = [[j for j in range(size) if j != i] for i in range(size)]
    gates = ref.gate(x, y, [], 0.3)
    found = []
    for i in range(size):
        cosines = [ref.dot(x[i], x[j]) for j in others[i]]
        times = gates[i]
        if name == "mmhe":  # the energy of the batch once for every open anchor
            total = math.fsum(math.exp(ref.dot(x[k], x[m]) / tau) for k in range(size) for m in range(k))
            weights = [math.exp(c / tau) / (tau * total) for c in cosines]
            pull, times = ratio * math.fsum(weights), sum(gates)
        elif name == "mmhs":  # the farthest distance in the pull
            nearest = max(cosines)
            weights = [1 / ref.euclidean(nearest) if c == nearest else 0.0 for c in cosines]
            pull = ratio / max(ref.euclidean(c) for c in cosines)
        else:  # weights h_i·h'_j at the quadratic stages
            weights = [2 * nu * ref.dot(x[i], y[j]) / size**2 for j in others[i]]
            pull = 2 / size
        row = []
        for k in range(width):
            push = math.fsum(w * x[j][k] for w, j in zip(weights, others[i], strict=True))
            diagonal = ref.mean([x[j][k] * y[j][k] for j in range(size)])
            along = 1 - (1 - nu) * diagonal if name == "mbarlow" else 1.0
            row.append(times * push - gates[i] * pull * along * y[i][k])
        found.append(row)
    return found


@pytest.mark.parametrize(("name", "stage"), [("mmhe", "+r"), ("mmhs", "+r"), ("mbarlow", "+gd")])
def test_the_printed_forms_have_the_gradient_of_the_misprint(name: str, stage: str) -> None:
    h, g = (ref.unit_rows(z) for z in BATCH)
    expected = [
        ref.raw_gradients(z, printed_gradient(name, x, y, stage, 1.5, 30.0))
        for z, x, y in ((BATCH[0], h, g), (BATCH[1], g, h))
    ]
    assert 0 < sum(ref.gate(h, g, [], 0.3)) < len(h)
    params = {"stage": stage, "ratio": 1.5, "weight": 30.0}
    for grad, closed in zip(gradients(f"printed/{name}", **params), expected, strict=True):
        np.testing.assert_allclose(grad, closed, atol=1e-10)
    corrected = gradients(name, **params)
    assert max(np.abs(a - b).max() for a, b in zip(corrected, expected, strict=True)) > 1e-2


# ---------------------------------------------------------------------------------------------------------
# Li & Pimentel-Alarcón: a sum in the paper, no constant in the code


@pytest.mark.parametrize("labels", [[0, 1, 0, -1, 1, 0, -1], [-1] * 7])
def test_cloa_as_a_sum_and_without_its_constant(labels: Sequence[int]) -> None:
    def pull(name: str, **params: Any) -> Tensor:
        objective = hs.create_objective(name, num_classes=2, dim=4, weight=0.5, **params)
        return objective.terms(*BATCH, torch.tensor(labels))["anchors"]

    anchors = ref.to_rows(hs.create_objective("cloa", num_classes=2, dim=4).anchors.double())
    cosines = [
        ref.dot(row, anchors[label])
        for z in BATCH
        for row, label in zip(ref.unit_rows(z), labels, strict=True)
        if label >= 0
    ]
    assert pull("cloa", reduction="sum").item() == pytest.approx(0.5 * math.fsum(1 - c for c in cosines), abs=1e-6)
    expected = -0.5 * ref.mean(cosines) if cosines else 0.0
    assert pull("released/cloa").item() == pytest.approx(expected, abs=1e-6)


def test_the_sum_of_cloa_reaches_an_objective_that_exists() -> None:
    objective = hs.create_objective("cloa", num_classes=2, dim=4)
    labels = torch.tensor([0, 1, 0, -1, 1, 0, -1])
    mean = objective.terms(*BATCH, labels)["anchors"].item()
    objective.reduction = "sum"
    assert objective.terms(*BATCH, labels)["anchors"].item() == pytest.approx(10 * mean, rel=1e-6)


def test_the_sum_of_cloa_is_the_papers_with_its_base_summed_too() -> None:
    """Eq. 1 over the 2N stacked rows, and Eq. 2 over the labelled rows of both views."""
    labels = torch.tensor([0, 1, 0, -1, 1, 0, -1])
    objective = hs.create_objective("cloa", num_classes=2, dim=4, reduction="sum")
    rows, anchors = ref.unit_rows(BATCH[0]) + ref.unit_rows(BATCH[1]), ref.to_rows(objective.anchors.double())
    total = 0.0
    for i, row in enumerate(rows):
        logits = [ref.dot(row, other) / 0.5 for a, other in enumerate(rows) if a != i]
        total += ref.logsumexp(logits) - ref.dot(row, rows[(i + 7) % 14]) / 0.5
        total += 1 - ref.dot(row, anchors[labels[i % 7]]) if labels[i % 7] >= 0 else 0
    assert objective(*BATCH, labels).item() == pytest.approx(total, rel=1e-6)


def test_a_base_keeps_the_reduction_it_was_given() -> None:
    def reductions(base: Any, **params: Any) -> str:
        return str(hs.create_objective("cloa", base=base, num_classes=2, dim=4, **params).base.reduction)

    assert reductions("mmhe") == "sum" and reductions("infonce") == "mean"  # their own, unless one is asked for
    assert reductions("mmhe", reduction="mean") == "mean" and reductions("infonce", reduction="sum") == "sum"
    assert reductions({"name": "dcl", "reduction": "mean"}, reduction="sum") == "mean"
    assert reductions(hs.create_objective("dcl"), reduction="sum") == "mean"
    with pytest.raises(ValueError, match="vicreg has no reduction 'sum', only 'mean'"):
        reductions("vicreg", reduction="sum")
    assert reductions({"name": "vicreg", "reduction": "mean"}, reduction="sum") == "mean"
