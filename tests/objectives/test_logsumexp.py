"""The base class of objectives that see only a log-sum-exp, and its energies by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.objectives import LogSumObjective
from hypersphere.objectives.logsumexp import energy_of, energy_of_all, logsumexp_of
from hypersphere.testing.example import views


def test_a_missing_formula_is_named() -> None:
    class Silent(LogSumObjective):
        temperature: float = 1.0

    with pytest.raises(TypeError, match="Silent must define from_logsumexp"):
        Silent()(*views(4, 3))


def test_without_negatives_there_is_no_energy_and_no_gradient() -> None:
    logsumexp = torch.tensor([0.5, -torch.inf], requires_grad=True)
    energy = energy_of(logsumexp, torch.tensor([3, 0]))
    assert energy.tolist() == [0.5, 0]
    assert torch.autograd.grad(energy.sum(), logsumexp)[0].tolist() == [1, 0]


def test_logarithms_of_which_some_or_all_are_of_nothing() -> None:
    """log(1 + 3), log(0 + 5), log(0 + 0), and their softmax as the gradient."""
    first = torch.tensor([0.0, -torch.inf, -torch.inf], dtype=torch.float64, requires_grad=True)
    second = torch.tensor([3.0, 5.0, 0.0], dtype=torch.float64).log().requires_grad_()
    total = logsumexp_of([first, second])
    assert total.exp().tolist() == pytest.approx([4, 5, 0])
    grads = torch.autograd.grad(total[:2].sum(), [first, second])
    assert grads[0].tolist() == pytest.approx([1 / 4, 0, 0]) and grads[1].tolist() == pytest.approx([3 / 4, 1, 0])


def test_the_energy_of_all_is_the_logarithm_of_a_mean_over_pairs() -> None:
    """Two anchors with sums 3 and 5 over two and three pairs, and one without any: log(8 / 5) less the shift."""
    logsumexp = torch.tensor([3.0, 5.0, 0.0], dtype=torch.float64).log().requires_grad_()
    number = torch.tensor([2, 3, 0])
    energy = energy_of_all(logsumexp, number, shift=0.25)
    assert energy.item() == pytest.approx(math.log(8 / 5) - 0.25)
    assert torch.autograd.grad(energy, logsumexp)[0].tolist() == pytest.approx([3 / 8, 5 / 8, 0])
    nothing = torch.full((2,), -torch.inf, dtype=torch.float64, requires_grad=True)
    none = energy_of_all(nothing, torch.zeros(2, dtype=torch.int64), shift=0.25)
    assert none.item() == 0 and torch.autograd.grad(none, nothing)[0].tolist() == [0, 0]


def test_the_formula_gets_the_sums_and_numbers_of_each_matrix() -> None:
    class Told(LogSumObjective):
        negatives = ("cross", "same")
        scale = 2.0

        def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Tensor:
            return logsumexp[0].exp() + 100 * logsumexp[1].exp() + 1e4 * num_negatives[0] + 1e5 * num_negatives[1]

    x, y = torch.eye(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64).roll(1, 0)
    extra = torch.tensor([[0.6, 0.8, 0]], dtype=torch.float64)
    # across: one cosine of 1 and one of 0 beside the extra's .6, .8, 0; within: two of 0 and the extra's again
    own = [math.exp(2 * c) for c in (0.6, 0.8, 0)]
    expected = [math.exp(2) + 1 + e + 100 * (2 + e) + 3e4 + 3e5 for e in own]
    assert Told().sees == "logsumexp"
    for context in (hs.dense(), hs.streaming(2)):
        with context:
            assert Told(reduction="none")(x, y, negatives=extra).tolist() == pytest.approx(expected)


def test_without_a_scale_the_fallback_is_asked_for() -> None:
    class Unready(LogSumObjective):
        scale = None

        def from_logsumexp(self, positive: Tensor, logsumexp: Any, num_negatives: Any) -> Tensor:
            return logsumexp - positive

    assert Unready().sees == "all"
    with pytest.raises(TypeError, match="Unready has no scale with these settings and must define fallback"):
        Unready()(*views(4, 3))
