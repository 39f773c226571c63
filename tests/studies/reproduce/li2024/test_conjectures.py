"""Figures 5 to 7: moments and overlap of histograms, and shares at their bounds."""

import pytest

from hypersphere.studies.reproduce.li2024.conjectures import _average, _moments, _overlap, fig7
from tests.studies.reproduce.fabricated import row
from tests.studies.reproduce.li2024.worlds import sweeps


def test_moments_of_a_histogram_are_those_of_its_bins_centres():
    assert _moments([0.5, 0.0, 0.0, 0.5]) == pytest.approx((0.0, 0.75))
    assert _moments([0.0, 0.0, 0.0, 0.9]) == pytest.approx((0.75, 0.0))  # shares need not add up to 1


def test_histograms_overlap_where_both_have_pairs():
    views = {"positive": [0.0, 0.25, 0.75], "negative": [0.5, 0.5, 0.0]}
    assert _overlap(row({"views": views})) == {43: 0.25} and _overlap(None) == {}


def test_a_mean_of_points_has_the_seeds_of_all_of_them():
    assert _average([{1: 2.0, 2: 5.0}, {1: 4.0}]) == {1: 3.0}


def test_shares_at_their_bounds_are_undecided():
    contests = sweeps()
    for each in contests["li-sweeps"].comparison.rows:
        for place, run in enumerate(each.runs):
            shares = run.result["views"]["hardest"]
            shares |= {"0.01": 0.5 + (0.2, -0.2, 0.05)[place], "0.1": 0.1, "0.3": 0.05 + (0.02, -0.02, 0.001)[place]}
    assert fig7(contests).verdict == "undecided"
