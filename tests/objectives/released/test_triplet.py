"""Triplets of the released code: over the wrong axis with a blanked diagonal, or with a floor under the distance."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import hypersphere as hs
from hypersphere.geometry import chord
from tests import reference as ref
from tests.objectives.released.batch import BATCH, gradients, value


def assert_gradient_of(loop: Callable[[ref.Rows, ref.Rows], float], grads: list[np.ndarray]) -> None:
    expected = ref.finite_difference(loop, *(z.numpy() for z in BATCH))
    for grad, difference in zip(grads, expected, strict=True):
        np.testing.assert_allclose(grad, difference, atol=1e-7)


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
    loss = value(f"released/{name}", margin=margin)
    assert loss == pytest.approx(released_triplet(name, *BATCH, margin), rel=1e-9)
    assert loss != pytest.approx(value(name, margin=margin), rel=1e-3)
    assert_gradient_of(lambda a, b: released_triplet(name, a, b, margin), gradients(f"released/{name}", margin=margin))


@pytest.mark.parametrize("name", ["mpt", "mat"])
def test_the_released_floor_matters_where_all_negatives_are_beyond_a_right_angle(name: str) -> None:
    simplex = hs.geometry.simplex(5, 4)
    released, paper = (
        hs.create_objective(each, margin=2.5)(simplex, simplex).item() for each in (f"released/{name}", name)
    )
    gap = 0.25 if name == "mpt" else math.acos(-0.25) - math.pi / 2
    assert released - paper == pytest.approx(gap, rel=1e-9)


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


def test_a_guide_judges_the_rows_of_the_second_view_which_are_the_anchors() -> None:
    guides = [z.roll(1, dims=1)[:, :3] for z in BATCH]
    h, g, of_first, of_second = (ref.unit_rows(z) for z in (*BATCH, *guides))
    losses, dropped = [], 0
    for i in range(len(g)):
        left = [
            ref.dot(h[j], g[i])
            for j in range(len(h))
            if j != i and ref.dot(of_second[i], of_first[j]) <= ref.dot(of_second[i], of_first[i])
        ]
        dropped += len(h) - 1 - len(left)
        losses.append(max(0.0, 0.5 - ref.dot(h[i], g[i]) + max(0.0, *left)) if left else 0.0)
    loss = hs.create_objective("released/mpt", margin=0.5)(*BATCH, guide=tuple(guides))
    assert dropped and loss.item() == pytest.approx(ref.mean(losses), rel=1e-9)
