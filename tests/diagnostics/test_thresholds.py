"""What the thresholds give as their reasons holds of the configurations they name."""

from __future__ import annotations

import math

import pytest
import torch

from hypersphere.diagnostics import diagnose, effective_rank, measures, thresholds
from hypersphere.geometry import uniform_points, unit
from tests.diagnostics.drawn import noise


def test_noise_raises_the_effective_rank_of_a_circle_but_not_its_leading_directions() -> None:
    """433 of 768 dimensions, above the share of FEW_DIMENSIONS: it takes the two numbers that resist noise."""
    circle = torch.nn.functional.pad(uniform_points(2000, 2), (0, 766)) + 0.01 * noise(2000, 768).double()
    z = unit(circle)
    rank = effective_rank(z, centre=True)
    assert rank == pytest.approx(433, abs=10) and rank > thresholds.FEW_DIMENSIONS.value * 768
    spectrum = measures.spectrum(z, centre=True)
    assert measures.leading_directions(spectrum, 0.75) == 2 <= thresholds.FEW_DIRECTIONS.value
    assert 1 < measures.participation(spectrum) < thresholds.LOW_PARTICIPATION.value


def test_a_share_of_the_squared_length_is_about_a_mean_absolute_cosine() -> None:
    """Rows ±z* and a little else: 0.99 along one direction, and a mean |cos| of about 0.99."""
    signs = 1 - 2 * (torch.arange(400) % 2).unsqueeze(1)
    z = signs * torch.eye(32)[0] + 0.018 * noise()
    view = diagnose(z).views[0]
    h = unit(z)
    off = ~torch.eye(400, dtype=torch.bool)
    assert view.first_direction == pytest.approx(thresholds.ONE_DIRECTION.value, abs=2e-3)
    assert float((h @ h.T).abs()[off].mean()) == pytest.approx(view.first_direction, abs=2e-3)


@pytest.mark.parametrize(("count", "dim"), [(200, 16), (800, 64)])
def test_two_samples_of_one_cloud_are_apart_by_the_root_of_two_over_their_number(count: int, dim: int) -> None:
    one, other = uniform_points(count, dim, seed=1), uniform_points(count, dim, seed=2)
    apart = diagnose(one, other).pairs
    assert apart is not None and apart.apart == pytest.approx(math.sqrt(2 / count), rel=0.25)
    assert apart.apart < thresholds.APART.value / 5


def test_uniform_rows_have_hardly_any_hubs() -> None:
    assert diagnose(uniform_points(1000, 24)).views[0].hubness < 0.5 < thresholds.HUBS.value
