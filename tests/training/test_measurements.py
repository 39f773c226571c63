"""What the monitor measures, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.training.anchors import ANATOMY
from hypersphere.training.monitor import Monitor, measure, measure_batches
from tests import cases
from tests.cases import TWO_VIEWS
from tests.training.worlds import views


class SquaredHinge(hs.PairwiseObjective):
    """Its push grows without end as the positive goes away: it has no limit at −∞."""

    negatives = "cross"
    margin: float = 0.9

    def per_anchor(self, positive: Tensor, negatives: Tensor, mask: Tensor) -> Tensor:
        return (mask * nn.functional.relu(self.margin - positive.unsqueeze(1) + negatives) ** 2).sum(dim=1)


def test_of_several_batches_every_anchor_and_every_pair_counts_once() -> None:
    """A batch of 12, one of 12 and one of 5, against loops over all anchors and all pairs."""
    z1, z2 = views(29)
    z1[24:] += 2.0  # the short batch is another one: a mean of means would show
    parts = [slice(0, 12), slice(12, 24), slice(24, 29)]
    objective = hs.create_objective("infonce", temperature=0.1)
    measurement = measure_batches(objective, [(z1[part], z2[part], None) for part in parts])
    losses, infonce, gates, gaps, negatives, angles, energies, aligned = ([] for _ in range(8))
    for part in parts:
        h, other = (nn.functional.normalize(z[part].double(), dim=1) for z in (z1, z2))
        for i in range(len(h)):
            row = [float(h[i] @ each) for each in other]
            losses.append(math.log(sum(math.exp(each / 0.1) for each in row)) - row[i] / 0.1)
            infonce.append(math.log(sum(math.exp(each / 0.05) for each in row)) - row[i] / 0.05)
            gates.append(1 - math.exp(row[i] / 0.1) / sum(math.exp(each / 0.1) for each in row))
            gaps.append(row[i] - max(each for j, each in enumerate(row) if j != i))
            negatives += [each for j, each in enumerate(row) if j != i]
            aligned.append(2 - 2 * row[i])
        for z in (h, other):
            pairs = [float((z[i] - z[j]) @ (z[i] - z[j])) for i in range(len(z)) for j in range(i)]
            energies.append([math.exp(-2 * each) for each in pairs])
    angles = [math.acos(each) for each in negatives]
    views_of = [[each for part in energies[side::2] for each in part] for side in (0, 1)]
    expected = {
        "rows": 29,
        "objective": np.mean(losses),
        "infonce": np.mean(infonce),
        "alignment": np.mean(aligned),
        "uniformity": np.mean([math.log(np.mean(each)) for each in views_of]),
        "dissipation": np.mean(gates),
        "with_gradient": np.mean([each >= 0.01 for each in gates]),
        "hardest_gap": np.mean(gaps),
        "hardest_gap_50": np.quantile(gaps, 0.5),
        "negative_cosine": np.mean(negatives),
        "negative_spread": np.std(negatives),
        "negative_absolute": np.mean(np.abs(negatives)),
        "negative_angle": np.mean(angles),
        "negative_angle_spread": np.std(angles),
    }
    for name, value in expected.items():
        assert getattr(measurement, name) == pytest.approx(value, abs=2e-5), name
    by_hand = [measure(objective, z1[part], z2[part]) for part in parts]
    mean_of_means = np.mean([each.infonce for each in by_hand])
    assert abs(measurement.infonce - mean_of_means) > 0.01
    whole = np.linalg.svd(nn.functional.normalize(z1, dim=1).numpy(), compute_uv=False)
    share = whole / whole.sum()
    assert measurement.effective_rank == pytest.approx(math.exp(-(share * np.log(share)).sum()), rel=1e-4)


def test_a_sum_over_anchors_is_that_of_a_whole_batch() -> None:
    z1, z2 = views(20)
    parts = [slice(0, 8), slice(8, 16), slice(16, 20)]
    batches = [(z1[part], z2[part], None) for part in parts]
    summed = measure_batches(hs.create_objective("infonce", reduction="sum"), batches)
    assert summed.objective == pytest.approx(8 * measure_batches(hs.create_objective("infonce"), batches).objective)


def test_only_the_first_rows_are_measured() -> None:
    z1, z2 = views(30)
    objective = hs.create_objective("infonce")
    assert measure(objective, z1, z2, rows=10) == measure(objective, z1[:10], z2[:10])
    assert measure(objective, z1, z2, rows=10).rows == 10


@pytest.mark.parametrize("name", ["cloa", *TWO_VIEWS])
def test_every_objective_is_measured(name: str) -> None:
    z1, z2 = views(16, 8)
    objective = hs.create_objective(name, **cases.settings_of(name, 3, 8))
    measurement = measure(objective, z1, z2, labels=torch.arange(16) % 3, gradient_norm=2.5)
    numbers = measurement.to_dict()
    for missing in [key for key, value in numbers.items() if math.isnan(value)]:
        reasons = {"anatomy"} if missing in ANATOMY else {missing}
        assert {missing, *reasons} & measurement.reasons.keys(), f"{missing} is NaN without a reason"
    assert numbers["gradient_norm"] == 2.5
    assert 0 <= numbers["with_gradient"] <= 1 or "anatomy" in measurement.reasons


def test_what_has_no_meaning_has_a_reason() -> None:
    z1, z2 = views(16, 8)
    measurement = measure(hs.create_objective("vicreg"), z1, z2)
    assert math.isnan(measurement.dissipation)
    assert "features" in measurement.reasons["dissipation"]


def test_a_foreign_loss_is_measured_too() -> None:
    z1, z2 = views(16, 8)

    def theirs(a: Tensor, b: Tensor) -> Tensor:
        a, b = nn.functional.normalize(a, dim=1), nn.functional.normalize(b, dim=1)
        return nn.functional.cross_entropy(a @ b.T / 0.5, torch.arange(len(a)))

    ours = measure(hs.create_objective("infonce", temperature=0.5), z1, z2)
    measurement = measure(theirs, z1, z2)
    assert measurement.objective == pytest.approx(ours.objective, abs=1e-6)


def test_a_loss_dissipates_alike_as_an_objective_and_as_a_plain_function() -> None:
    """At a convention of its own, the objective would have stopped where the function goes on."""

    def hinge(a: Tensor, b: Tensor) -> Tensor:
        cosine = nn.functional.normalize(a, dim=1) @ nn.functional.normalize(b, dim=1).T
        open_gates = nn.functional.relu(0.9 - cosine.diagonal().unsqueeze(1) + cosine) ** 2
        return (open_gates * (1 - torch.eye(len(a)))).sum(dim=1).mean()

    z1, z2 = views(8)
    ours, theirs = measure(SquaredHinge(margin=0.9), z1, z2), measure(hinge, z1, z2)
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-5)
    assert ours.dissipation == pytest.approx(theirs.dissipation, rel=1e-3) and 0.01 < ours.dissipation < 0.99
    assert ours.with_gradient == theirs.with_gradient > 0.5


def test_objectives_that_gather_are_measured_alone_and_left_as_they_are() -> None:
    objective = hs.create_objective("infonce", gather=True, learnable=True)
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    measure(objective, *views())
    assert objective.gather is True
    assert all(torch.equal(before[name], value) for name, value in objective.state_dict().items())
    assert all(parameter.grad is None for parameter in objective.parameters())


def test_wrong_input_is_refused_in_one_sentence() -> None:
    z1, z2 = views()
    with pytest.raises(ValueError, match="two views of one shape"):
        measure(hs.create_objective("infonce"), z1, z2[:5])
    with pytest.raises(ValueError, match="every is a number of steps"):
        Monitor(hs.create_objective("infonce"), every=-1)
    with pytest.raises(ValueError, match="budget is a share"):
        Monitor(hs.create_objective("infonce"), budget=0)


@pytest.mark.parametrize("by", ["ids", "guide"])
def test_pairs_that_are_left_out_are_no_negatives_of_the_measurements(by: str) -> None:
    """Two batches, the second of which has no negatives left, against loops over the pairs that stay."""
    z1, z2 = views(11)
    ids = torch.tensor([0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 4])
    guide = nn.functional.one_hot(ids).float()  # equal ids: more similar than the positive less the margin, the same
    parts = [slice(0, 7), slice(7, 11)]
    base = {"name": "infonce", "temperature": 0.3}
    objective = hs.create_objective(**base) if by == "ids" else hs.create_objective("guided", base=base, margin=0.5)
    known = {"ids": ids} if by == "ids" else {"guide": (guide, guide)}
    cut = [{"ids": ids[part]} if by == "ids" else {"guide": (guide[part], guide[part])} for part in parts]
    batches = [(z1[part], z2[part], None, each) for part, each in zip(parts, cut, strict=True)]
    measurement = measure_batches(objective, batches)
    cosines, gaps, hardest, gates, shares, losses = ([] for _ in range(6))
    for part in parts:
        h, other = (nn.functional.normalize(z[part].double(), dim=1) for z in (z1, z2))
        for i in range(len(h)):
            left = [j for j in range(len(h)) if ids[part][j] != ids[part][i]]
            row = {j: float(h[i] @ other[j]) for j in [i, *left]}
            powers = {j: math.exp(each / 0.3) for j, each in row.items()}
            losses.append(math.log(sum(powers.values())) - row[i] / 0.3)
            if not left:
                continue
            push = sum(powers[j] for j in left)
            cosines += [row[j] for j in left]
            gaps.append(np.mean([float((h[i] - other[j]).norm()) for j in left]) - float((h[i] - other[i]).norm()))
            hardest.append(row[i] - max(row[j] for j in left))
            gates.append(push / sum(powers.values()))
            shares.append(max(powers[j] for j in left) / push)
    assert len(gaps) == 7  # none in the second batch
    assert measurement.negative_cosine == pytest.approx(np.mean(cosines), rel=1e-5)
    assert measurement.negative_spread == pytest.approx(np.std(cosines), rel=1e-5)
    assert measurement.gap == pytest.approx(np.mean(gaps), rel=1e-5)
    assert measurement.hardest_gap == pytest.approx(np.mean(hardest), rel=1e-5)
    assert measurement.hardest_gap_10 == pytest.approx(np.quantile(hardest, 0.1), rel=1e-4)
    assert measurement.dissipation == pytest.approx(np.mean(gates), rel=1e-6)
    assert measurement.hardest_weight == pytest.approx(np.mean(shares), rel=1e-6)
    assert measurement.objective == pytest.approx(np.mean(losses), rel=1e-5)
    alone = measure(objective, z1[7:], z2[7:], **{name: cut[1][name] for name in known})
    assert math.isnan(alone.gap) and math.isnan(alone.negative_cosine) and alone.objective == 0
    first = measure(objective, z1, z2, **known, rows=7)  # cut with the rows
    assert first.gap == measure(objective, z1[:7], z2[:7], **cut[0]).gap
