"""Figure 3 in worlds that were made up."""

import pytest

from hypersphere.studies.reproduce.nie2023.margins import fig3, peaked, spread
from tests.studies.reproduce.nie2023.worlds import (
    GAPS,
    PEAKED,
    STS_PUBLISHED,
    TRANSFER_PUBLISHED,
    contest,
    margins,
    objectives,
)


def both(make):
    held = contest("nie-margins", make)
    return {**held, **objectives(STS_PUBLISHED, TRANSFER_PUBLISHED)}


def test_fig3_agrees_where_similarity_peaks_inside_and_dcl_keeps_growing():
    finding = fig3(both(margins(PEAKED)))
    assert finding.verdict == "agrees", (finding.clauses, finding.measured)
    assert finding.here.startswith("best m = 0.23 with 5")


def test_fig3_does_not_agree_where_everything_is_the_other_way_round():
    monotone = {label: 60.0 - 20 * gap for label, gap in GAPS.items()}
    make = margins(
        monotone, flat=False, growing=("infonce",), overfits=("mpt margin=0.23",), worse=("mpt margin=0.23",)
    )
    finding = fig3(both(make))
    holds = dict(finding.clauses)
    assert holds.pop("a: the largest margin leaves a larger gap than the smallest") is True
    assert set(holds.values()) == {False} and finding.verdict == "partly"
    assert finding.fault.startswith("Scale: in 4 of 6 runs")  # nothing that should overfit has begun to


def test_fig3_is_undecided_in_noise():
    finding = fig3(both(margins(dict.fromkeys(PEAKED, 48.0), size=8.0, growing=(), overfits=(), worse=())))
    assert finding.verdict == "undecided", finding.clauses


def test_a_peak_is_above_both_ends():
    def by_seed(*means):
        return {float(place): {1: mean, 2: mean + 0.1, 3: mean - 0.1} for place, mean in enumerate(means)}

    assert peaked(by_seed(1.0, 3.0, 2.0)) is True and peaked(by_seed(1.0, 2.0, 3.0)) is False
    assert peaked({0.1: {}, 0.2: {}, 0.3: {}}) is None
    assert spread(by_seed(1.0, 3.0, 2.0)) == pytest.approx({1: 2.0, 2: 2.0, 3: 2.0})
