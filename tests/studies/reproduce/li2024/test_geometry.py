"""Figure 11: steps that end on the circle at both ends of the interval."""

import pytest

from hypersphere.studies.reproduce.li2024 import geometry


def test_steps_end_closer_between_the_ends_and_at_the_same_distance_on_them():
    rows = geometry.fig11().data["fig11"]
    gained = [row["before"] - row["distance"] for row in rows]
    assert gained[2] > 0.1 and max(gained[0], gained[4]) < -0.1
    assert (gained[1], gained[3]) == pytest.approx((0, 0), abs=1e-12)


def test_an_interval_that_is_not_the_steps_is_found(monkeypatch):
    interval = geometry.ratio_interval
    monkeypatch.setattr(geometry, "ratio_interval", lambda *given: tuple(end + 0.01 for end in interval(*given)))
    assert geometry.fig11().verdict == "does not agree"
