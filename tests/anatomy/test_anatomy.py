"""An anatomy's numbers and words."""

from __future__ import annotations

import math

import pytest
import torch

import hypersphere as hs
from hypersphere.anatomy import dissect, ratio_interval
from hypersphere.geometry import unit
from hypersphere.testing.example import views
from tests.anatomy.drawn import X, Y


def test_the_numbers_and_the_words() -> None:
    z1, z2 = views(32, 8)
    hard = hs.dissect(hs.create_objective("infonce", temperature=0.01), z1, z2)
    soft = hs.dissect(hs.create_objective("infonce", temperature=1.0), z1, z2)
    assert hard.hardest_share.mean() > 0.9 > 0.2 > soft.hardest_share.mean()
    assert 1 <= hard.effective_negatives.mean() < 2 < 20 < soft.effective_negatives.mean() <= 31
    words = str(soft)
    for word in ("still receive gradient", "negatives", "from the hardest", "times the push", "Lemma 1, both ends",
                 "radial and wasted", "Conventions: "):  # fmt: skip
        assert word in words
    assert "against the mean negative" in soft.report(step=0.5, negative="mean")
    assert "meeting Lemma 1 (λ=0.5, mean)" in soft.numbers(0.5, "mean")
    with pytest.raises(ValueError, match="'hardest' or 'mean'"):
        soft.numbers(negative="easiest")


def test_an_anchor_below_one_percent_of_its_gradient_has_stopped() -> None:
    """Orthogonal negatives, and the positive at 0: GD = 1 - p_ii is the same for all, and below or above 0.01."""
    x = torch.eye(16, dtype=torch.float64)
    for temperature, alive in ((0.12, 0.0), (0.15, 1.0)):
        anatomy = hs.dissect(hs.create_objective("infonce", temperature=temperature), x, x + 1e-9)
        gate = 15 / (15 + math.exp(1 / temperature))
        assert anatomy.dissipation.mean().item() == pytest.approx(gate, rel=1e-6)
        assert (gate >= 0.01) == bool(alive)
        assert anatomy.numbers()["anchors with gradient"] == alive
        assert ("all but stopped" in anatomy.verdict()) == (not alive)
    stopped = hs.dissect(hs.create_objective("mpt", margin=0.01), torch.eye(5), torch.eye(5))
    assert stopped.numbers()["anchors with gradient"] == 0
    assert "has stopped here" in str(stopped)


def test_the_hardest_negative_is_one_the_loss_compares_with():
    cosines = (X @ Y.T).fill_diagonal_(-2)
    low, high = ratio_interval(X, Y, Y[cosines.argmax(dim=1)], 0.1)
    anatomy = dissect(hs.create_objective("infonce", temperature=0.5), X, Y)
    assert torch.equal(anatomy.lemma1(), (anatomy.ratio > low) & (anatomy.ratio < high))
    assert ((X @ X.T).fill_diagonal_(-2).amax(dim=1) > cosines.amax(dim=1)).any()  # others would have been nearer
    share = torch.softmax(cosines.fill_diagonal_(-math.inf) / 0.5, dim=1).amax(dim=1)
    torch.testing.assert_close(anatomy.hardest_share, share)


@pytest.mark.parametrize(
    "loss", [hs.create_objective("align_uniform", weight=0.0), lambda a, b: ((unit(a) - unit(b)) ** 2).sum(1).mean()]
)
def test_without_negatives_nothing_is_said_of_them(loss):
    anatomy = dissect(loss, X, Y)
    assert anatomy.verdict() == "100% of the anchors still receive gradient. No negative has any weight."
    numbers = anatomy.numbers()
    assert all(math.isnan(numbers[name]) for name in ("effective negatives", "weight of the hardest", "mean ratio"))
    assert math.isnan(next(value for name, value in numbers.items() if "Lemma" in name))


def test_the_share_that_is_alive_is_that_of_the_measured_anchors() -> None:
    anatomy = dissect(hs.create_objective("mixup", base={"name": "mpt", "margin": 0.0}), X, Y, most_anchors=4)
    assert anatomy.measured.tolist() == [True] * 4 + [False] * 8
    assert anatomy.numbers()["anchors with gradient"] == anatomy.alive[:4].double().mean()


def test_rows_that_are_all_the_same_have_nowhere_to_go() -> None:
    same = torch.ones(6, 4)
    said = dissect(hs.create_objective("infonce"), same, same).verdict()
    assert "None of it moves them" in said and "nan" not in said
