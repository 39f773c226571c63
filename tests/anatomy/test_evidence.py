"""Similarities of two views, and what each temperature makes of them, against anatomies and plain loops."""

from __future__ import annotations

import math

import pytest
import torch

import hypersphere as hs
from hypersphere.anatomy import find_evidence
from hypersphere.anatomy.evidence import APPROACHING, random_batches
from hypersphere.geometry import tangent, unit
from tests.anatomy.drawn import X, Y, rows


def test_cosines_are_those_of_plain_loops() -> None:
    evidence = find_evidence(3 * X, Y)
    positive = [float(x @ y) for x, y in zip(X, Y, strict=True)]
    rows = [[float(X[i] @ Y[j]) for j in range(12) if j != i] for i in range(12)]
    negative = [each for row in rows for each in row]
    for measured, values in ((evidence.positive, positive), (evidence.negative, negative)):
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((each - mean) ** 2 for each in values) / len(values))
        assert measured == pytest.approx((mean, spread))
    assert evidence.hardest == pytest.approx(sum(map(max, rows)) / 12) and evidence.negatives == 11


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_weights_are_those_of_infonces_anatomy(temperature: float) -> None:
    (weights,) = find_evidence(X, Y, (temperature,)).weights
    anatomy = hs.dissect(hs.create_objective("infonce", temperature=temperature), X, Y)
    assert weights.temperature == temperature
    assert weights.gradient == pytest.approx(anatomy.dissipation.mean().item())
    assert weights.hardest == pytest.approx(anatomy.hardest_share.mean().item())
    assert weights.effective == pytest.approx(anatomy.effective_negatives.mean().item())
    assert weights.hardest_tenth == weights.hardest  # a tenth of eleven negatives is one


def test_the_hardest_tenth_is_of_the_negatives() -> None:
    """Twenty-one equal negatives: two of them have two shares of 1/21, and all count."""
    x = torch.eye(22)
    (weights,) = find_evidence(x, x, (0.1,)).weights
    assert weights.hardest == pytest.approx(1 / 21) and weights.hardest_tenth == pytest.approx(2 / 21)
    assert weights.effective == pytest.approx(21)
    assert weights.gradient == pytest.approx(21 / (21 + math.exp(10)))


def test_the_advised_ratio_brings_nine_tenths_closer_to_their_positive() -> None:
    """By the steps themselves, up to one of the anchors: the quantile lies between two of them."""
    x, y = rows(200, 0), unit(rows(200, 0) + 0.4 * rows(200, 1))
    hardest = y[(x @ y.T).fill_diagonal_(-2).argmax(dim=1)]
    pull, push = tangent(y, x), tangent(hardest, x)

    def closer(r: float) -> float:
        moved = 0.1 * (r * pull - push)
        return ((pull - moved).norm(dim=1) < pull.norm(dim=1)).double().mean().item()

    ratio = find_evidence(x, y).ratio
    assert closer(ratio) == pytest.approx(APPROACHING, abs=1 / 200)
    assert closer(ratio - 0.2) < APPROACHING - 1 / 200 and closer(ratio + 0.2) > APPROACHING + 1 / 200


def test_views_that_coincide_have_no_ratio() -> None:
    assert math.isnan(find_evidence(X, X).ratio)


def test_batches_share_the_rows_out_and_leave_a_rest() -> None:
    (whole,) = random_batches(5, None, 0)
    assert whole.tolist() == [0, 1, 2, 3, 4] == random_batches(5, 9, 0)[0].tolist()
    batches = random_batches(14, 4, seed=3)
    assert [len(rows) for rows in batches] == [4, 4, 4]
    assert len(set(torch.cat(batches).tolist())) == 12
    assert torch.equal(torch.cat(random_batches(14, 4, seed=3)), torch.cat(batches))
    assert not torch.equal(torch.cat(random_batches(14, 4, seed=4)), torch.cat(batches))
    assert find_evidence(X, Y, batch_size=4).negatives == 3
