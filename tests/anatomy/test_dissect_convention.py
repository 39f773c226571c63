"""Dissipation has one convention: a loss is measured alike whether it is registered or a plain function."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.geometry import unit
from hypersphere.testing.example import views
from tests.cases import TWO_VIEWS

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
ROWS = 48


@pytest.fixture(scope="module")
def squared_triplet() -> Iterator[type[hs.PairwiseObjective]]:
    """The objective that CONTRIBUTING writes, without registering it."""
    code = re.search(r"```python\n(.*?)\nif __name__", CONTRIBUTING.read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1].replace('@hs.register("squared_triplet")\n', ""), names)
    yield names["SquaredTriplet"]


def both_ways(objective: hs.Objective, scope: str = "batch") -> tuple[hs.Anatomy, hs.Anatomy]:
    z1, z2 = views(ROWS, 8)
    z2 = z1 + 0.5 * z2
    return (
        hs.dissect(objective, z1, z2, scope=scope),
        hs.dissect(lambda a, b: objective(a, b), z1, z2, most_anchors=ROWS),
    )


# A thousand random directions for each anchor moved would take minutes.
@pytest.mark.parametrize("name", [n for n in TWO_VIEWS if "num_slices" not in hs.create_objective(n).settings()])
def test_an_objective_and_a_function_that_calls_it_dissipate_alike(name: str) -> None:
    """From similarities that go to -∞, and from vectors that go to the antipode: these move with them what the positive
    is to others, which counts where an objective compares more than its anchors with the other view."""
    objective = hs.create_objective(name).double().eval()
    ours, plain = both_ways(objective)
    alone = getattr(objective, "reads", ()) == ("cross",) and getattr(objective, "anchors", "") == "first"
    alone = alone and math.isinf(objective.farthest)  # vectors do not reach a finite end, they come near it
    means = [each.dissipation.mean().item() for each in (ours, plain)]
    # The centre of an anchor and its antipode is 0, and MMCR pushes it nowhere: there is no dissipation to speak of.
    assert means[0] == pytest.approx(means[1], rel=1e-6 if alone else 0.03, nan_ok=name == "mmcr")
    assert torch.equal(ours.alive[ours.measured], plain.alive[ours.measured])


@pytest.mark.parametrize("base", ["infonce", "ntxent", "met"])
def test_cloa_is_its_base_and_its_pull_in_either_scope(base: str) -> None:
    cloa = hs.create_objective("cloa", base=base, num_classes=3, dim=8)
    z1, z2 = views(ROWS, 8)
    labels = torch.arange(ROWS) % 3
    for scope in ("anchor", "batch"):
        anatomy, alone = (hs.dissect(each, z1, z2, labels, scope=scope) for each in (cloa, cloa.base))
        assert anatomy.scope == alone.scope == scope
        assert torch.equal(anatomy.dissipation.nan_to_num(9), alone.dissipation.nan_to_num(9))
        assert anatomy.numbers()["length of the alignment part"] == alone.numbers()["length of the alignment part"]
        assert anatomy.residual.min() > 1e-4 and alone.residual.max() < 1e-6
    # one scale: with a single direction both scopes see the same gradient, N times over
    if base == "infonce":
        shares = [hs.dissect(cloa, z1, z2, labels, scope=scope).residual for scope in ("anchor", "batch")]
        torch.testing.assert_close(shares[0], shares[1])


@pytest.mark.parametrize("margin", [0.1, 0.3, 1.0])
def test_a_push_that_grows_without_end_is_measured_at_the_antipode(squared_triplet: Any, margin: float) -> None:
    """Its sum of coefficients is 2 relu(m - s + max), against 2 (m + 1 + max) at the antipode."""
    objective = squared_triplet(margin=margin)
    for scope in ("anchor", "batch"):
        ours, plain = both_ways(objective, scope)
        hardest = (ours.anchors @ ours.positives.T).fill_diagonal_(-2).amax(dim=1)
        positive = (ours.anchors * ours.positives).sum(dim=1)
        expected = torch.relu(margin - positive + hardest) / (margin + 1 + hardest)
        torch.testing.assert_close(ours.dissipation, expected)
        torch.testing.assert_close(plain.dissipation, expected, rtol=1e-7, atol=1e-7)
        assert "positive at the antipode" in ours.conventions and "positive at the antipode" in plain.conventions
        assert ours.verdict().partition(" of the anchors")[0] == plain.verdict().partition(" of the anchors")[0]


def test_both_directions_lose_what_the_anchors_own_positive_holds_back() -> None:
    """Symmetric InfoNCE by loops: own softmax without its positive, the column's as it is."""
    z1, z2 = views(6, 4)
    tau = 0.4
    objective = hs.create_objective("infonce", symmetric=True, temperature=tau)
    rows = torch.softmax(unit(z1) @ unit(z2).T / tau, dim=1)
    columns = torch.softmax(unit(z1) @ unit(z2).T / tau, dim=0)
    dissipation = hs.dissect(objective, z1, z2, scope="batch").dissipation
    for i in range(6):
        as_key = sum(columns[i, j].item() for j in range(6) if j != i)
        gate = sum(rows[i, j].item() for j in range(6) if j != i)
        assert dissipation[i].item() == pytest.approx((gate + as_key) / (1 + as_key))
    assert not math.isclose(
        dissipation.mean().item(), hs.dissect(objective, z1, z2).dissipation.mean().item(), rel_tol=0.01
    )
