"""Tables and the tree of a study."""

import csv
import json

import pytest

from hypersphere.documents import json_safe
from hypersphere.studies.compare.files import about, as_csv, as_latex, as_tree
from hypersphere.studies.compare.results import collect
from tests.studies.compare.plans import STAGES, attempt, comparison, plan


def test_the_tables_are_whole_and_the_tree_is_json():
    result = comparison()
    assert as_latex(result).count(r"\\") == 1 + 4
    tree = json.loads(json.dumps(json_safe(as_tree(result)), allow_nan=False))
    assert [row["name"] for row in tree["rows"]] == [row.name for row in result.ranking]
    assert tree["differences"][0]["improvement"] == 1.0 and tree["groups"][0] == ["dhel"]


def test_a_line_of_the_csv_is_a_run_with_its_settings():
    header, *lines = csv.reader(as_csv(comparison()).splitlines())
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    assert len(rows) == 8 + 3 * (2 + 8)
    tuned = next(row for row in rows if (row["contestant"], row["stage"], row["trial"]) == ("dhel", "tuning", "1"))
    assert (tuned["validation"], tuned["test"], tuned["seed"]) == ("71.0", "", "42")
    assert float(tuned["optimizer.lr"]) > 0 and rows[0]["optimizer.lr"] == ""  # the untrained encoder has none


def test_the_table_for_a_paper_escapes_names_and_has_the_mean():
    made = plan(objectives="align_uniform", trials=0)
    cells = made.test({"name": "align_uniform"}, made.given({"name": "align_uniform"}))
    result = collect(made, {cell.id: attempt(0.0, 60.0 + 2 * place) for place, cell in enumerate(cells)})
    assert r"align\_uniform & 61.00 & " in as_latex(result)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"trials": 3}, "(3 trials each on validation data)"),
        ({"trials": 0}, "(settings as given)"),
        ({"grid": {"batch.size": [32]}}, "(no tuning, a grid)"),
        ({"stages": STAGES, "trials": 0}, "(7 trials each on validation data, in stages)"),
        ({"stages": STAGES, "objectives": "dhel,kcl"}, "(5 to 7 trials each on validation data, in stages)"),
    ],
)
def test_the_note_below_the_table_says_how_settings_were_chosen(given, words):
    assert words in about(collect(plan(**given), {}))
