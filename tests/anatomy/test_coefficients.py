"""Derivatives in similarities: those of private coordinates, and limits of what positives hold back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.anatomy.coefficients import Coefficients, _limit, same_label_of
from hypersphere.geometry import unit
from hypersphere.testing.example import some_labels, views
from tests import cases


@pytest.mark.parametrize(("name", "params"), **cases.named([c for c in cases.SMOOTH if "both" not in str(c)]))
def test_private_coordinates_find_what_the_similarities_say(name: str, params: dict[str, Any]) -> None:
    """The method for any callable, on our own objectives hidden behind a function, also with N > D."""
    z1, z2 = views(7, 3)
    objective = hs.create_objective(name, **params).double()
    labels = some_labels(7)
    known = hs.dissect(objective, z1, z2, labels, scope="batch").coefficients
    anatomy = hs.dissect(lambda a, b: objective(a, b, labels), z1, z2, labels)
    assert anatomy.scope == "batch"
    scale = 1 + known.columns.abs().max()
    torch.testing.assert_close(anatomy.coefficients.positive, known.positive, rtol=1e-7, atol=1e-8 * scale.item())
    torch.testing.assert_close(anatomy.coefficients.columns, known.columns, rtol=1e-7, atol=1e-8 * scale.item())
    assert anatomy.rotation_invariant
    assert anatomy.residual.max() < 1e-6


@pytest.mark.parametrize("temperature", [0.05, 0.5, 2.0])
def test_a_function_finds_the_limit_beyond_the_antipode(temperature: float) -> None:
    """InfoNCE's dissipation is 1 - p_ii, the positive's share of the softmax; few rows make its last part large."""
    z1, z2 = views(5, 3)

    def infonce(a: Tensor, b: Tensor) -> Tensor:
        s = unit(a) @ unit(b).T / temperature
        return (torch.logsumexp(s, dim=1) - s.diagonal()).mean()

    share = torch.softmax(unit(z1) @ unit(z2).T / temperature, dim=1).diagonal()
    for loss in (infonce, hs.create_objective("infonce", temperature=temperature)):
        torch.testing.assert_close(hs.dissect(loss, z1, z2).dissipation, 1 - share, rtol=1e-5, atol=1e-7)


def test_negatives_and_positives_of_other_instances_are_told_apart() -> None:
    labels = torch.tensor([3, -1, 3])
    same = same_label_of(labels, more=1)
    assert same.int().tolist() == [[0, 0, 1, 0, 0, 1, 0], [0] * 7, [1, 0, 0, 1, 0, 0, 0]]
    cross, own = torch.full((3, 3), 2.0).fill_diagonal_(0), torch.full((3, 3), -3.0).fill_diagonal_(0)
    known = Coefficients(torch.tensor([-5.0, 0, 1]), cross, own, torch.full((3, 1), 7.0), same)
    assert known.columns[0].tolist() == [0, 2, 2, 0, -3, -3, 7]
    assert known.negative[0].tolist() == [0, 2, 0, 0, -3, 0, 7]
    assert known.relative[0].tolist() == [0, 0, 2, 0, 0, -3, 0]
    assert known.pull.tolist() == [-5 + 2 - 3, 0, 1 + 2 - 3]
    assert known.size.tolist() == [5 + 2 * 2 + 2 * 3 + 7, 17, 18]
    without = known.of_anchors(torch.tensor([True, False, True]))
    assert without.columns[1].tolist() == [0] * 7 and without.positive.tolist() == [-5, 0, 1]
    plain = replace(known, same_label=None)
    assert torch.equal(plain.negative, plain.columns) and not plain.relative.any()


@pytest.mark.parametrize(("temperature", "partition"), [(0.5, 3.0), (2.0, 10.0)])
def test_the_limit_of_a_gate_is_found_from_three_steps(temperature: float, partition: float) -> None:
    """c / (1 + e^{s/τ}/Z) at s = 0, -1/2, -1 goes to c."""
    last, before, first = (
        torch.tensor(7 / (1 + math.exp(s / temperature) / partition), dtype=torch.float64) for s in (-1.0, -0.5, 0.0)
    )
    assert _limit(last, before, first).item() == pytest.approx(7, rel=1e-9)


@pytest.mark.parametrize("steps", [(9.0, 4.0, 1.0), (2.0, 2.0, 2.0), (1.0, -1.0, 1.0), (3.0, 2.0, 1.0)])
def test_steps_that_do_not_converge_end_where_they_are(steps: tuple[float, float, float]) -> None:
    """A squared hinge, nothing that changes, a sign that does, an angle."""
    assert _limit(*(torch.tensor(each, dtype=torch.float64) for each in steps)).item() == steps[0]
