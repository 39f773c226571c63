"""The item on collapsed batches: an identity, and the verdicts of its quick version."""

from __future__ import annotations

from hypersphere.studies.reproduce.own import collapse as item


def test_kcl_is_the_distance_from_the_uniform_law():
    rows = item.kernel_identity()
    assert {row["dim"] for row in rows} >= {2, 3, 4}
    assert all(row["error"] < 1e-12 and row["gradient_error"] < 1e-12 for row in rows)


def test_quick_item():
    finding = item.collapse(quick=True)
    assert finding.verdict == "partly" and finding.fault
    words = {clause: value for clause, value in finding.clauses.items() if clause.startswith("(1)")}
    assert list(words.values()) == [True, True, True, False]
    assert finding.clauses["(3) no objective is at a local minimum on a line"] is True
    assert finding.clauses["(3) NT-Xent is at a local minimum on a line (Theorem 3.1 as printed)"] is False
    by_label = [value for clause, value in finding.clauses.items() if clause.startswith("(4)")]
    assert by_label == [True, True, False]
    rows = finding.data["collapse"]
    assert {row["verdict"] for row in rows} <= {"leaves", "stays", "moves as a whole", "jumps"}
    assert {row["kind"] for row in rows} <= {"minimum", "saddle", "maximum", "flat", "kink", "not stationary"}
    assert set(finding.figures) == {"collapse"} and "| koleo, point" in finding.measured
