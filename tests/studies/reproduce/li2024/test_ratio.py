"""Figure 4: the ratios by hand, and a clause that can fail."""

import math

import pytest

from hypersphere.studies.reproduce.li2024 import ratio


def test_ratios_are_those_of_distances_and_of_the_shifted_angle():
    rows = ratio.fig4(quick=True).data["fig4"]
    for row in (row for row in rows if not row["shaded"]):
        p, n = row["theta_pos"], row["theta_neg"]
        by_hand = (
            math.sin(n / 2) / math.sin(p / 2) if row["loss"] == "met" else math.sin(p + math.radians(10)) / math.sin(p)
        )
        assert row["ratio"] == pytest.approx(by_hand)
    assert {row["loss"] for row in rows if not row["shaded"]} == {"arccon", "met"}
    assert all(row["shaded"] for row in rows if row["theta_pos"] > row["theta_neg"])


def test_ratios_above_two_are_counted(monkeypatch):
    form = ratio.closed_form

    def tripled(name):
        return lambda p, n: form(name)(p, n)._replace(ratio=3 * form(name)(p, n).ratio)

    monkeypatch.setattr(ratio, "closed_form", tripled)
    assert ratio.fig4(quick=True).verdict == "does not agree"
