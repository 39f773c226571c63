"""The quick version of theorem 3.1."""

from __future__ import annotations

from hypersphere.studies.reproduce.cloa2024.theorem31 import theorem31


def test_quick_theorem_upholds_the_zero_gradient_and_not_the_minimum() -> None:
    found = theorem31(quick=True)
    assert found.verdict == "partly"
    assert list(found.clauses.values()) == [True, False, True, False]
    kinds = {(row["objective"], row["configuration"]): row["found"] for row in found.data["curvature"]}
    assert kinds["infonce", "all equal"] == kinds["ntxent", "all equal"] == "saddle"
    assert kinds["met", "all equal"] == "kink, descends"
    assert kinds["mvicreg", "all equal"] == "gradient field unstable"
    assert kinds["cloa", "all equal"] == "not stationary"
