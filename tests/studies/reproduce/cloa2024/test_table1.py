"""Table 1: the registry by families, and nothing measured."""

from __future__ import annotations

from hypersphere.objectives import list_objectives
from hypersphere.studies.reproduce.cloa2024.table1 import _groups, table1


def test_table_1_is_copied_and_says_so() -> None:
    finding = table1()
    assert finding.verdict == "undecided" and finding.measured.startswith("Copied, not measured: ")
    simclr = next(row for row in finding.data["published"] if row["method"] == "SimCLR")
    assert simclr["top1"] == 69.3 and "ntxent" in simclr["here"]


def test_every_registered_objective_stands_in_one_family() -> None:
    family = {row[0]: name for name, rows in _groups() for row in rows}
    assert sorted(row[0] for _, rows in _groups() for row in rows) == sorted(list_objectives())
    assert family["infonce"] == "softmax" and family["dcl"] == "softmax without the positive"
    assert family["siglip"] == "each pair by itself" and family["vicreg"] == "no probability"
