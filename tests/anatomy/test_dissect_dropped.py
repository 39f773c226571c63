"""Anatomies of batches with false negatives, against loops over the pairs that are left."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import unit
from hypersphere.testing.example import views

SIZE, EXTRA = 6, 3
IDS, IDS_NEGATIVES = torch.tensor([4, 7, 4, -1, -1, 9]), torch.tensor([9, 2, -1])
TAU = 0.3


def batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return *views(SIZE, 4), torch.randn(EXTRA, 4, dtype=torch.float64, generator=generator)


def guides() -> tuple[tuple[Tensor, Tensor], Tensor]:
    generator = torch.Generator().manual_seed(6)
    first, second = (torch.randn(SIZE, 3, dtype=torch.float64, generator=generator) for _ in range(2))
    return (first, first + 0.7 * second), torch.randn(EXTRA, 3, dtype=torch.float64, generator=generator)


def left(i: int, margin: float) -> list[int]:
    """The columns, of the other view and the extra negatives, that ids and guide leave to an anchor."""
    (first, second), extra = guides()
    x, y, n = unit(first), unit(second), unit(extra)
    threshold = float(x[i] @ y[i]) - margin
    columns = []
    for j in range(SIZE + EXTRA):
        number = int(IDS[j] if j < SIZE else IDS_NEGATIVES[j - SIZE])
        equal = number >= 0 and number == int(IDS[i])
        similar = float(x[i] @ (y[j] if j < SIZE else n[j - SIZE])) > threshold
        if j != i and not equal and not similar:
            columns.append(j)
    return columns


@pytest.fixture(scope="module")
def anatomy() -> hs.Anatomy:
    z1, z2, negatives = batch()
    guide, guide_negatives = guides()
    objective = hs.create_objective("guided", base={"name": "infonce", "temperature": TAU}, margin=0.1)
    return hs.dissect(
        objective, z1, z2, negatives=negatives, ids=IDS, ids_negatives=IDS_NEGATIVES,
        guide=guide, guide_negatives=guide_negatives,
    )  # fmt: skip


def test_coefficients_are_those_of_the_pairs_that_are_left(anatomy: hs.Anatomy) -> None:
    """∂L_i/∂s_ij = p_ij/τ and GD = 1 - p_ii; the weights are the softmax of the remaining negatives over τ."""
    z1, z2, negatives = batch()
    cosines = unit(z1) @ torch.cat([unit(z2), unit(negatives)]).T
    assert sorted(map(len, (left(i, 0.1) for i in range(SIZE)))) != [SIZE + EXTRA - 1] * SIZE
    for i in range(SIZE):
        columns = left(i, 0.1)
        powers = {j: math.exp(float(cosines[i, j]) / TAU) for j in [i, *columns]}
        total, push = sum(powers.values()), sum(powers[j] for j in columns)
        for j in range(SIZE + EXTRA):
            place = j if j < SIZE else SIZE + j
            expected = powers[j] / total / TAU if j in columns else 0.0
            assert anatomy.coefficients.negative[i, place].item() == pytest.approx(expected, rel=1e-10)
            weight = powers[j] / push / TAU if j in columns else 0.0
            assert anatomy.weight[i, place].item() == pytest.approx(weight, rel=1e-9)
            assert bool(anatomy.counted[i, place]) == (j in columns)
        assert anatomy.dissipation[i].item() == pytest.approx(push / total, rel=1e-10)
        assert anatomy.ratio[i].item() == pytest.approx(1, rel=1e-10)
        assert anatomy.hardest_share[i].item() == pytest.approx(max(powers[j] for j in columns) / push, rel=1e-9)
        hardest = max(columns, key=lambda j: float(cosines[i, j]))
        assert anatomy.hardest[i] == (hardest if hardest < SIZE else SIZE + hardest)


def test_the_hardest_negative_is_one_that_is_left() -> None:
    """Among rows of few weights, too: only one pair of each anchor has any."""
    z1, z2, _ = batch()
    ids = torch.tensor([0, 0, 1, 1, 1, 2])
    anatomy = hs.dissect(hs.create_objective("mpt", margin=5.0), z1, z2, ids=ids)
    cosines = unit(z1) @ unit(z2).T
    for i in range(SIZE):
        columns = [j for j in range(SIZE) if ids[j] != ids[i]]
        hardest = max(columns, key=lambda j: float(cosines[i, j]))
        assert anatomy.hardest[i] == hardest
        assert anatomy.coefficients.negative[i].nonzero().flatten().tolist() == [hardest]
    torch.testing.assert_close(anatomy.hardest_share, torch.ones(SIZE, dtype=torch.float64))


@pytest.mark.parametrize("scope", ["anchor", "batch"])
def test_rows_that_guide_themselves_are_taken_apart_like_their_base_given_the_same_guide(scope: str) -> None:
    z1, z2, negatives = batch()
    base = {"name": "dhel", "energy": "both", "temperature": TAU}
    own = hs.create_objective("guided", base=base, source="self", margin=-0.1)
    given = hs.create_objective("guided", base=base, margin=-0.1)
    ours = hs.dissect(own, z1, z2, negatives=negatives, scope=scope)
    known = hs.dissect(given, z1, z2, negatives=negatives, guide=(z1, z2), guide_negatives=negatives, scope=scope)
    assert ours.scope == scope
    torch.testing.assert_close(ours.coefficients.columns, known.coefficients.columns, rtol=1e-12, atol=0)
    assert torch.equal(ours.counted, known.counted) and not ours.counted.all()


def test_a_pair_dropped_for_one_row_keeps_what_the_other_does_to_it() -> None:
    """A guide is not symmetric. In the scope of the batch, row i is also a key of row j."""
    z1, z2, _ = batch()
    objective = hs.create_objective("guided", base={"name": "dhel", "energy": "anchor", "temperature": TAU})
    (first, second), _ = guides()
    anatomy = hs.dissect(objective, z1, z2, guide=(first, second), scope="batch")
    x, y, h = unit(first), unit(second), unit(z1)
    kept = [[i != j and float(x[i] @ x[j]) <= float(x[i] @ y[i]) for j in range(SIZE)] for i in range(SIZE)]
    powers = [[math.exp(float(h[i] @ h[j]) / TAU) if kept[i][j] else 0.0 for j in range(SIZE)] for i in range(SIZE)]
    sums = [sum(row) for row in powers]
    assert any(kept[i][j] != kept[j][i] for i in range(SIZE) for j in range(i))
    for i in range(SIZE):
        for j in range(SIZE):
            own = powers[i][j] / sums[i] if kept[i][j] else 0.0
            as_key = powers[j][i] / sums[j] if kept[j][i] else 0.0
            expected = (own + as_key) / TAU / SIZE
            assert anatomy.coefficients.same[i, j].item() == pytest.approx(expected, rel=1e-9)
            assert bool(anatomy.counted[i, SIZE + j]) == (kept[i][j] or kept[j][i])


def test_the_weights_of_xclr_are_softmax_minus_target() -> None:
    """∂L/∂(z_a·z_b) = (p_ab - q_ab + p_ba - q_ba) / (2N τ) over the 2N stacked rows."""
    z1, z2, _ = batch()
    (guide, _), _ = guides()
    anatomy = hs.dissect(hs.create_objective("xclr", temperature=0.4, graph_temperature=0.6), z1, z2, guide=guide)
    rows, seen = torch.cat([unit(z1), unit(z2)]), torch.cat([unit(guide)] * 2)
    size = len(rows)

    def shares(vectors: Tensor, temperature: float) -> list[list[float]]:
        powers = [
            [math.exp(float(vectors[a] @ vectors[b]) / temperature) if a != b else 0.0 for b in range(size)]
            for a in range(size)
        ]
        return [[each / sum(row) for each in row] for row in powers]

    p, q = shares(rows, 0.4), shares(seen, 0.6)
    for a in range(SIZE):
        for b in range(size):
            expected = 0.0 if a == b else (p[a][b] - q[a][b] + p[b][a] - q[b][a]) / (size * 0.4)
            same, cross = b < SIZE, b - SIZE
            ours = anatomy.coefficients.same[a, b] if same else anatomy.coefficients.cross[a, cross]
            ours = anatomy.coefficients.positive[a] if cross == a else ours
            assert ours.item() == pytest.approx(expected, rel=1e-7, abs=1e-9)
    assert anatomy.counted.sum() == SIZE * (size - 2)  # its guide grades pairs and drops none
    assert anatomy.residual.max() < 1e-6


def test_graded_pairs_pull_and_push_nothing_else() -> None:
    z1, z2, _ = batch()
    scores = torch.tensor([0.1, 0.9, 0.4, 0.4, 0.7, 0.2], dtype=torch.float64)
    anatomy = hs.dissect(hs.create_objective("cosent"), z1, z2, scores=scores)
    cosines = (unit(z1) * unit(z2)).sum(dim=1).tolist()
    pairs = {
        (i, j): math.exp(20 * (cosines[i] - cosines[j]))
        for i in range(SIZE)
        for j in range(SIZE)
        if scores[i] < scores[j]
    }
    total = 1 + sum(pairs.values())
    for i in range(SIZE):
        pull = sum(value * ((a == i) - (b == i)) for (a, b), value in pairs.items())
        assert anatomy.coefficients.positive[i].item() == pytest.approx(20 * pull / total, rel=1e-7, abs=1e-9)
    assert anatomy.coefficients.columns.abs().max() < 1e-9


def test_what_a_dissection_cannot_use_or_lacks_is_named() -> None:
    z1, z2, _ = batch()
    with pytest.raises(ValueError, match=r"^ids= is for hypersphere's objectives; any other loss"):
        hs.dissect(lambda a, b: (a * b).sum(), z1, z2, ids=IDS)
    with pytest.raises(ValueError, match=r"^xclr needs guide: give guide= in its call$"):
        hs.dissect(hs.create_objective("xclr"), z1, z2)
    with pytest.raises(ValueError, match=r"^barlow compares features, not pairs: it takes no ids$"):
        hs.dissect(hs.create_objective("barlow"), z1, z2, ids=IDS)
    with pytest.raises(ValueError, match="guide must have 6 rows"):
        hs.dissect(hs.create_objective("infonce"), z1, z2, guide=torch.ones(5, 3))
