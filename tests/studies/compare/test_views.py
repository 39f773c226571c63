"""The views of a run in a few numbers, against plain loops."""

import math

import pytest
import torch
from safetensors.torch import save_file

from hypersphere.studies.compare import views


def test_histograms_hardest_shares_and_ranks_of_an_orthonormal_batch():
    z = torch.eye(6)
    summary = views.summary(z, z)
    assert summary["positive"][-1] == 1.0 and summary["negative"][views.BINS // 2] == 1.0  # cosines 1 and 0
    assert set(summary["hardest"].values()) == {0.2}  # of five equal negatives
    assert summary["effective_rank"] == pytest.approx(6.0, abs=1e-3)


def test_the_hardest_share_by_hand():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.nn.functional.normalize(torch.randn(7, 4, generator=generator).double()) for _ in range(2))
    shares = []
    for i in range(7):
        weights = [math.exp(float(x[i] @ y[j]) / 0.1) for j in range(7) if j != i]
        shares.append(max(weights) / sum(weights))
    assert views.summary(5 * x, y)["hardest"]["0.1"] == pytest.approx(sum(shares) / 7, abs=1e-5)


def test_lemma1_lower_end_is_where_a_step_begins_to_bring_the_anchor_closer():
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.nn.functional.normalize(torch.randn(40, 8, generator=generator).double()) for _ in range(2))
    lower_ends = views.summary(x, y)["lemma1"]["0.01"]
    ends = []
    for i in range(40):
        j = max((j for j in range(40) if j != i), key=lambda j: float(x[i] @ y[j]))
        positive, negative = (each - (each @ x[i]) * x[i] for each in (y[i], y[j]))  # in the tangent plane
        low, high = -20.0, 20.0
        for _ in range(60):  # bisection: does the step with this ratio shorten the way to the positive?
            middle = (low + high) / 2
            moved = 0.01 * (middle * positive - negative)
            closer = torch.linalg.vector_norm(positive - moved) < torch.linalg.vector_norm(positive)
            low, high = (low, middle) if closer else (middle, high)
        ends.append(high)
    expected = torch.quantile(torch.tensor(ends), torch.tensor(views.QUANTILES))
    assert lower_ends["exists"] == 1.0
    assert lower_ends["quantiles"] == pytest.approx(expected.tolist(), abs=2e-3)


def test_views_that_are_not_there_or_not_finite_are_empty(tmp_path):
    assert views.views_of(tmp_path / "none.safetensors") == {}
    save_file({"z1": torch.full((3, 2), torch.nan), "z2": torch.ones(3, 2)}, tmp_path / "views.safetensors")
    assert views.views_of(tmp_path / "views.safetensors") == {}
