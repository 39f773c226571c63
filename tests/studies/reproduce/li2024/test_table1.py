"""Table 1: a formula that is not the gradient's is found by its name."""

import pytest

from hypersphere.studies.reproduce.li2024 import table1


@pytest.mark.parametrize("part, words", [("dissipation", "GD of InfoNCE, GD of ArcCon"), ("ratio", "R of InfoNCE")])
def test_a_wrong_formula_is_named(part, words, monkeypatch):
    form = table1.closed_form

    def changed(name):
        return lambda p, n: form(name)(p, n)._replace(**{part: 1.01 * getattr(form(name)(p, n), part)})

    assert table1.table1(quick=True).verdict == "agrees"
    monkeypatch.setattr(table1, "closed_form", changed)
    finding = table1.table1(quick=True)
    assert finding.verdict == "does not agree" and words in finding.measured and "Not decided" in finding.fault
