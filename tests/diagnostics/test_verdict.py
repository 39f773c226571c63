"""Every verdict is provoked, and what only looks like one is not accused."""

import pytest
import torch

from hypersphere.diagnostics import diagnose
from hypersphere.geometry import unit
from tests.diagnostics.drawn import cone, noise


def hubs(count=400, dim=32):
    nearness = torch.linspace(0.05, 2, count).unsqueeze(1)  # rows near the mean are everybody's neighbours
    return nearness * noise(count, dim) + 2 * torch.eye(dim)[0]


def with_columns(columns):
    z = noise()
    z[:, columns] = 0.5
    return z


def with_zero_row():
    z = noise()
    z[7] = 0
    return z


SICK = {
    "rank-1 over-fusion": (torch.ones(400, 32) + 0.01 * noise(), None),
    "dimensional collapse": (noise(400, 4) @ noise(4, 64, seed=1), None),
    "anisotropic cone": (cone(), None),
    "repeated rows": (noise(380).repeat(2, 1)[:400], None),
    "dead dimensions": (with_columns([3, 30]), None),
    "zero rows": (with_zero_row(), None),
    "hubs": (hubs(), None),
    "positives not aligned": (noise(), noise(seed=1)),
    "identical views": (noise(), 2 * noise()),
    "views apart": (noise() + 3 * torch.eye(32)[0], noise() - 3 * torch.eye(32)[0]),
}


@pytest.mark.parametrize("name", SICK)
def test_every_illness_is_found(name):
    diagnosis = diagnose(*SICK[name])
    assert name in [finding.name for finding in diagnosis.findings]
    assert not diagnosis.healthy and name in diagnosis.verdict
    finding = next(each for each in diagnosis.findings if each.name == name)
    assert any(letter.isdigit() for letter in finding.evidence)  # evidence is a number
    assert finding.remedy and str(finding) in str(diagnosis)


@pytest.mark.parametrize("name", ["rank-1 over-fusion", "dimensional collapse", "repeated rows", "dead dimensions",
                                  "positives not aligned", "identical views", "zero rows"])  # fmt: skip
def test_one_illness_is_not_taken_for_another(name):
    assert diagnose(*SICK[name]).verdict == name


def test_rank_one_says_point_or_line():
    signs = torch.where(torch.arange(400) % 2 == 0, 1.0, -1.0).unsqueeze(1)
    assert "one point" in diagnose(SICK["rank-1 over-fusion"][0]).findings[0].words
    line = diagnose(signs * SICK["rank-1 over-fusion"][0])
    assert "one line" in line.findings[0].words
    assert line.views[0].total_variance == pytest.approx(1, abs=1e-3)
    assert line.views[0].first_direction > 0.99
    assert diagnose(torch.ones(5, 3)).findings[0].name == "rank-1 over-fusion"


def test_a_finding_of_both_views_is_said_once_with_both_numbers():
    finding = diagnose(cone(), cone() + 0.1 * noise(seed=2)).findings[0]
    assert finding.name == "anisotropic cone"
    assert "z1: " in finding.evidence and "z2: " in finding.evidence


def test_grave_findings_come_first():
    z = noise(400, 4) @ noise(4, 64, seed=1)
    z[:, :3] = 0.5
    diagnosis = diagnose(z)
    assert [finding.grave for finding in diagnosis.findings] == [True, False]


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
