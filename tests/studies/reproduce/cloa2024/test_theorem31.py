"""The quick version of theorem 3.1."""

from __future__ import annotations

from hypersphere.studies.reproduce.cloa2024.theorem31 import theorem31


def test_quick_theorem_upholds_the_zero_gradient_and_not_the_minimum() -> None:
    finding = theorem31(quick=True)
    assert finding.verdict == "partly"
    assert list(finding.clauses.values()) == [True, False, True, False]
    kinds = {(row["objective"], row["configuration"]): row["found"] for row in finding.data["curvature"]}
    assert kinds["infonce", "all equal"] == kinds["ntxent", "all equal"] == "saddle"
    assert kinds["met", "all equal"] == "kink, descends"
    assert kinds["mvicreg", "all equal"] == "gradient field unstable"
    assert kinds["cloa", "all equal"] == "not stationary"
