"""The card of a trained model, and what a run made of the model in a sentence."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import yaml
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

from hypersphere.cli.app import app
from hypersphere.training.card import outcome, write_card
from hypersphere.training.load import parse_recipe
from tests.training import worlds

RESULTS = {"given": {}, "scores": {"knn": 90.0}, "best_step": 3, "steps": 6, "outcome": ""}


def agree_with(model: SentenceTransformer, path: Path) -> None:
    """Rewrites the scores as the model's own cosines: no other model can do better."""
    table = list(csv.DictReader(path.read_text().splitlines()))
    first, second = (model.encode([row[key] for row in table]) for key in ("sentence1", "sentence2"))
    rows = [[r["sentence1"], r["sentence2"], f"{c:.6f}"] for r, c in zip(table, (first * second).sum(1), strict=True)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["sentence1", "sentence2", "score"], *rows])


def results(best: int | None, given: dict[str, float], **scores: float) -> dict[str, Any]:
    return {"best_step": best, "given": given, "scores": scores}


def test_a_card_names_no_folder_and_holds_no_markup(tmp_path: Path) -> None:
    source = "/home/me/<script>*x*.txt"
    tree = worlds.changed(
        {"task": "text", "data": {"source": source}, "encoder": {"name": "/home/me/models/bert"}, "steps": 6},
        {"evaluation": {"sts": "/home/me/sts"}, "output": "/home/me/run", "about": {"source": "x ```\n# big"}},
    )
    text = write_card(tmp_path, parse_recipe(tree), RESULTS).read_text()
    assert "/home" not in text
    assert r"bert, trained with hypersphere on \<script\>\*x\*.txt." in text
    assert r"- protocol: x \`\`\` \# big" in text
    assert yaml.safe_load(text.split("---")[1])["tags"][:2] == ["hypersphere", "objective:infonce"]


def test_the_recipe_of_a_card_ends_where_its_fence_does(tmp_path: Path) -> None:
    tree = {"task": "text", "data": {"source": "a```b.txt"}, "encoder": {"name": "org/model"}, "steps": 6}
    text = write_card(tmp_path, parse_recipe(tree), RESULTS).read_text()
    recipe = text.split("````yaml\n")[1].split("\n````\n")[0]
    assert yaml.safe_load(recipe)["data"]["source"] == "a```b.txt" and "output" not in yaml.safe_load(recipe)


def test_a_damaged_model_is_reported_in_the_last_line_and_in_the_card(tmp_path: Path) -> None:
    ruin = worlds.fine_tuning(tmp_path, "optimizer.lr=0.01", "evaluation.best=false")
    agree_with(SentenceTransformer(str(tmp_path / "sentence-model")), tmp_path / "scored.csv")
    answer = CliRunner().invoke(app, ["train", "simcse-small", *ruin])
    assert answer.exit_code == 0, answer.output
    last = answer.output.strip().splitlines()[-1]
    assert last.startswith("Worse than the model as given: stsb_dev ") and last.endswith(", as given 100.00.")
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert last in card and "| as given | after training |" in card


def test_the_outcome_names_what_got_worse_beside_what_got_better() -> None:
    given = {"dev": 79.64, "test": 82.03}
    assert outcome(results(60, given, dev=82.70, test=77.0)) == (
        "Worse than the model as given: test 77.00, as given 82.03. "
        "Better than the model as given: dev 82.70, as given 79.64."
    )
    assert outcome(results(60, given, dev=float("nan"), test=82.031)).startswith(
        "Worse than the model as given: dev nan"
    )
    assert outcome(results(60, given, dev=79.64, test=82.03)) == "Neither better nor worse than the model as given."


def test_weights_of_step_0_mean_that_nothing_was_learned() -> None:
    given = {"dev": 79.64, "test": 82.03}
    assert outcome(results(0, given, dev=79.64, test=82.03)) == (
        "Nothing was learned: no step was better than the model as given, which the run kept."
    )
    replaced = outcome(results(0, given, dev=70.0, test=71.0))
    assert "no step was better than the weights at step 0" in replaced and "Worse than the model" in replaced
    assert "no step was better than the weights at step 0" in outcome(results(0, {}, knn=90.0))
    assert outcome(results(20, {}, knn=90.0)) == ""


def test_sets_that_are_scored_only_at_the_end_have_no_score_as_given(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    scored = {**RESULTS, "given": {"stsb_dev": 23.0}, "scores": {"stsb_dev": 37.0, "STS13": 41.5}}
    write_card(tmp_path, parse_recipe(worlds.text_recipe(tmp_path)), scored)
    lines = (tmp_path / "model" / "README.md").read_text().splitlines()
    assert [line.replace(" ", "") for line in lines if "STS13" in line] == ["|STS13|–|41.50|"]
