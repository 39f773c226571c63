"""A collapse onto few dimensions is seen through noise, and what only looks like one is not accused."""

import pytest
import torch

from hypersphere.diagnostics import diagnose
from hypersphere.geometry import unit
from tests.diagnostics.test_diagnose import noise


def flat(dims, count=800, dim=192, jitter=0.02):
    """Uniform on a sphere of few dimensions, turned into many, with noise in all of them."""
    turned = torch.linalg.qr(noise(dim, dims, seed=3)).Q.T
    return unit(noise(count, dims)) @ turned + jitter * noise(count, dim, seed=4)


@pytest.mark.parametrize("dims, jitter", [(1, 0.01), (1, 0.03), (2, 0.02), (2, 0.03), (3, 0.02)])
def test_a_collapse_is_seen_through_noise(dims, jitter):
    """Two points, a circle, a sphere: the noise alone has an effective rank far above the threshold."""
    diagnosis = diagnose(flat(dims, jitter=jitter))
    finding = next(each for each in diagnosis.findings if each.name == "dimensional collapse")
    assert diagnosis.views[0].effective_rank_centred > 0.25 * 192 and finding.grave
    assert diagnosis.views[0].leading_directions == dims
    assert f"75 % of the variance is along {dims} of 192 possible directions, participation ratio" in finding.evidence


def test_a_low_participation_ratio_is_a_collapse_too():
    """Half of the squared length is noise, so that three quarters take many directions; the pairs do not see it."""
    diagnosis = diagnose(flat(1, jitter=0.055))
    assert diagnosis.views[0].leading_directions > 4 and 1.5 < diagnosis.views[0].participation_ratio < 3
    assert "dimensional collapse" in diagnosis.verdict


@pytest.mark.parametrize("count, dim", [(2, 8), (3, 64), (12, 300), (50, 8), (20, 3), (64, 64), (500, 2), (500, 16)])
def test_uniform_rows_of_any_shape_have_not_collapsed(count, dim):
    assert diagnose(noise(count, dim, seed=6)).healthy


@pytest.mark.parametrize("spread", [0.02, 0.05, 0.2])
def test_ten_classes_apart_from_each_other_have_not_collapsed(spread):
    centres = unit(noise(10, 64, seed=7))
    z = centres[torch.arange(1000) % 10] + spread * noise(1000, 64)
    diagnosis = diagnose(z, labels=torch.arange(1000) % 10)
    assert "dimensional collapse" not in diagnosis.verdict and diagnosis.classes.agreement > 0.9


@pytest.mark.parametrize("classes, spread", [(2, 0.013), (3, 0.013), (5, 0.013), (3, 0.002), (5, 0.002)])
def test_few_classes_apart_are_what_their_labels_want(classes, spread):
    """At the corners of a simplex, as supervised losses leave them: without the labels it looks like a collapse."""
    centred = torch.eye(classes).double() - 1 / classes
    corners = unit(centred) @ torch.linalg.qr(noise(512, classes, seed=8).double()).Q.T
    labels = torch.arange(600) % classes
    z = corners[labels] + spread * noise(600, 512).double()
    diagnosis = diagnose(z, labels=labels)
    assert diagnosis.views[0].leading_directions <= classes - 1 and not any(each.grave for each in diagnosis.findings)
    assert any(each.grave and each.name == "dimensional collapse" for each in diagnose(z).findings)
    shuffled = diagnose(z, labels=labels[torch.randperm(600, generator=torch.Generator().manual_seed(0))])
    assert any(each.grave and each.name == "dimensional collapse" for each in shuffled.findings)


@pytest.mark.parametrize("dims", [6, 8, 16])
def test_a_subspace_under_noise_is_worth_a_warning(dims):
    diagnosis = diagnose(flat(dims, count=800, dim=384, jitter=0.01))
    (finding,) = (each for each in diagnosis.findings if each.name == "few leading directions")
    assert not finding.grave and f"along {diagnosis.views[0].leading_directions} of 384 possible" in finding.evidence


def test_more_directions_than_classes_are_not_explained_by_them():
    z = flat(6, count=800, dim=384, jitter=0.01)
    turned = torch.linalg.qr(noise(384, 6, seed=3)).Q
    diagnosis = diagnose(z, labels=(z @ turned[:, 0] > 0).long())
    assert diagnosis.classes.beyond_chance > 0.5 and diagnosis.verdict == "few leading directions"


def test_one_large_direction_beside_many_is_no_collapse():
    """As in a language model not trained for similarity: a low participation ratio, and yet the rest spreads."""
    z = noise(800, 192) * torch.linspace(1, 0.2, 192)
    z[:, 0] *= 7
    view = diagnose(z + 40 * torch.eye(192)[1]).views[0]
    assert 3 < view.participation_ratio < 10 and view.leading_directions > 20
    assert "dimensional collapse" not in diagnose(z + 40 * torch.eye(192)[1]).verdict
