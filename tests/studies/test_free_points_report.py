"""The report's sentences follow from its measurements."""

from __future__ import annotations

from hypersphere.geometry import simplex, uniform_points
from hypersphere.studies.free_points import (
    CONTESTANTS,
    FEW,
    MANY,
    Outcome,
    clustered_points,
)
from hypersphere.studies.free_points_report import _many_words, apart, listed, text, title


def test_the_report_says_who_falls_short() -> None:
    few = []
    for of in FEW:
        start = clustered_points(of.count, of.dim, 0)
        best = of.optimum
        assert best is not None
        few.append([Outcome(c, of, start, start if c.name == "met" else best) for c in CONTESTANTS])
    scattered = uniform_points(200, 3)
    many = [Outcome(c, FEW[0], scattered, scattered) for c in CONTESTANTS]
    written = text(few, many, "picture.png", seed=0, steps=1)
    assert "Few points: 7 of 8 objectives reach the known optimum" in written
    assert "MET m=0.45 reaches none of the 3: at 6.3°, 5.7° and 3.4° it was still moving" in written


def test_many_points_in_few_places_are_counted_and_none_is_listed_as_keeping_apart() -> None:
    gathered = simplex(4, 3).repeat(MANY.count // 4, 1)
    many = [Outcome(c, MANY, gathered, gathered) for c in CONTESTANTS]
    words = _many_words(many)
    assert len(words) == len(CONTESTANTS) and all(
        f"gathers the {MANY.count} points in 4 places" in each for each in words
    )
    assert apart(many) == [] and "none keeps all neighbours apart" in title([], many)
    assert [listed(labels) for labels in ([], ["a"], ["a", "b", "c"])] == ["none", "a", "a, b and c"]
