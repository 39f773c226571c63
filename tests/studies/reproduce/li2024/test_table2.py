"""The formulas of table 2 against gradients."""

from hypersphere.studies.reproduce.li2024.table2 import table2


def test_the_tables_formulas_hold_once_corrected():
    finding = table2(quick=True)
    assert max(row["max relative difference"] for row in finding.data["table2"]) < 1e-8
    for row, words in zip(finding.data["table2_as_printed"], ("W of Barlow (unit rows) by", "R of mMHS"), strict=True):
        assert row["max relative difference"] > 0.1 and words in finding.measured
