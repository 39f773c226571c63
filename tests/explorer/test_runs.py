"""Runs and studies as the page gets them."""

import json

from hypersphere.explorer.runs import list_runs, read_study
from tests.explorer.asking import ask, tree


def test_runs_are_listed_with_their_state(server):
    rows = {row["id"]: row for row in tree(server, "/api/runs")[1]["runs"]}
    assert {"runs/first", "runs/begun"} <= rows.keys() and "runs/linked" not in rows
    assert rows["runs/first"]["objective"] == "<b>met</b>" and rows["runs/first"]["embeddings"]
    assert rows["runs/first"]["state"] == "running" and not rows["runs/begun"]["embeddings"]


def test_curves_and_the_verdict_where_it_happened(server):
    run = tree(server, "/api/runs/runs/first")[1]
    panel = next(panel for panel in run["panels"] if panel["title"] == "Alignment and uniformity")
    assert [point[:2] for point in panel["curves"][0]["points"]] == [[0, 1.0], [10, 1 / 11], [20, 1 / 21]]
    assert [(event["step"], event["name"]) for event in run["events"]] == [(20, "overfitting")]
    assert run["recipe"] == "objective:\n  name: <b>met</b>\n" and run["steps"] == 20


def test_a_run_without_a_measurement_has_a_sentence(server):
    run = tree(server, "/api/runs/runs/begun")[1]
    assert run["panels"] == [] and run["sentence"].startswith("The run has no measurement yet")


def test_a_study_has_its_table_and_a_report_that_runs_no_program(server):
    assert [row["id"] for row in tree(server, "/api/studies")[1]["studies"]] == ["studies/pair"]
    study = tree(server, "/api/studies/studies/pair")[1]
    assert study["verdict"] == ["b is better."] and study["report"] and not study["picture"]
    assert study["rows"][1] == ["b", "70.50", "69.00 to 72.00", "+1.25", "0.04", "71.00", "2", "3.0"]
    assert study["rows"][0][3] == "reference"
    status, headers, content = ask(server, "/api/report/studies/pair")
    assert status == 200 and b"<h1>report</h1>" in content
    assert "sandbox" in headers["Content-Security-Policy"] and "script-src" not in headers["Content-Security-Policy"]


def test_a_study_that_has_just_begun_and_one_that_goes_on(tmp_path):
    study = tmp_path / "pair"
    (study / "runs").mkdir(parents=True)
    (study / "study.json").write_text("{}")
    waiting = "The table is written when the study ends or is interrupted."
    assert read_study(tmp_path, "pair")["sentence"] == f"{waiting} No run has begun yet."
    for name in ("first", "second"):
        (study / "runs" / name).mkdir()
        (study / "runs" / name / "recipe.yaml").write_text("objective: met\n")
    (study / "runs" / "first" / "results.json").write_text("{}")
    going = "1 of the 2 runs that have begun have finished."
    assert read_study(tmp_path, "pair")["sentence"] == f"{waiting} {going}"
    tree = {
        "metric": "knn",
        "reference": "a",
        "complete": False,
        "verdict": [],
        "rows": [],
        "differences": [],
        "runs": [],
    }
    (study / "results.json").write_text(json.dumps(tree))
    assert read_study(tmp_path, "pair")["sentence"] == going


def test_a_recipe_that_changes_is_read_again(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    for text, name in (("objective: met\n", "met"), ("objective:\n  name: infonce\n", "infonce"), ("[broken", "")):
        recipe.write_text(text)
        assert [row["objective"] for row in list_runs(tmp_path)] == [name]
