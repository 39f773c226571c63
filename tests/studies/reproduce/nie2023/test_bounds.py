"""The chain of upper bounds: the first step is log 2 at most, and a smaller margin breaks the second."""

import math

import pytest

from hypersphere.studies.reproduce.nie2023 import bounds


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    monkeypatch.setattr(bounds, "_draw_bounds", lambda *given: None)


def test_the_first_step_gives_away_log_2_at_most():
    finding = bounds.bounds(quick=True)
    first = [row for row in finding.data["slack"] if row["step"] == "InfoNCE to log2 + DCL+"]
    assert finding.verdict == "agrees" and len(first) == len(bounds.TEMPERATURES)
    assert all(0 <= row["q0"] <= row["q100"] <= math.log(2) for row in first)


def test_a_margin_below_that_of_the_bound_breaks_it(monkeypatch):
    create = bounds.create_objective

    def smaller(name, **settings):
        return create(name, **settings | ({"margin": 0.5 * settings["margin"]} if name == "mpt" else {}))

    monkeypatch.setattr(bounds, "create_objective", smaller)
    assert bounds.bounds(quick=True).clauses == {"InfoNCE ≤ log 2 + DCL+": True, "DCL+ ≤ MPT/τ": False}
