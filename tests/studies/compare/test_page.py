"""The page of a study."""

from hypersphere.studies.compare.files import as_markdown
from hypersphere.studies.compare.page import _history, _wrong, comparison_page
from hypersphere.studies.compare.results import collect
from tests.studies.compare.plans import attempt, comparison, plan


def test_an_objective_that_failed_is_a_row_with_its_reason():
    result = comparison(fail=("vicreg",))
    assert result.complete and result.ranking[-1].name == "vicreg"
    page = comparison_page(result)
    assert "the &lt;loss&gt; is not finite" in page and "<loss>" not in page
    assert "no score" in as_markdown(result)


def test_a_learning_curve_has_the_steps_that_all_runs_share():
    made = plan(objectives="ntxent", trials=0, seeds=2)
    histories = [{"0": {"knn": 40.0}, "3": {"knn": 50.0}, "6": {"knn": 60.0}}, {"0": {"knn": 42.0}, "6": {"knn": 64.0}}]
    cells = made.test({"name": "ntxent"}, made.given({"name": "ntxent"}))
    attempts = {cell.id: attempt(0.0, 60.0, history=each) for cell, each in zip(cells, histories, strict=True)}
    (row,) = collect(made, attempts).contestants
    assert _history(row, "knn") == ([0, 6], [[40.0, 60.0], [42.0, 64.0]])
    assert _history(row, "accuracy") is None


def test_what_the_monitor_saw_is_counted_by_objective():
    made = plan(objectives="ntxent", trials=0, seeds=2)
    cells = made.test({"name": "ntxent"}, made.given({"name": "ntxent"}))
    attempts = {cell.id: attempt(0.0, 60.0, verdicts=[["over-fusion", "words"]]) for cell in cells}
    attempts |= {cell.id: attempt(0.0, 50.0) for cell in made.untrained}
    assert "<td>2 runs</td><td>over-fusion</td>" in "".join(_wrong(collect(made, attempts))).replace("\n", "")
    assert "No run failed" in "".join(_wrong(comparison()))
