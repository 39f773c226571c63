"""What is measured of the final model."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from hypersphere.data import transfer
from hypersphere.evaluation.probes import evaluate_run
from hypersphere.training import after
from hypersphere.training.reading import parse_recipe
from hypersphere.training.run import train
from tests.training.worlds import digits_recipe, text_recipe


def test_probes_after_a_run_are_those_of_its_folder(tmp_path: Path) -> None:
    tree = digits_recipe(tmp_path, evaluation={"after": ["linear"], "shares": [0.5, 1.0]}, steps=2)
    finished = train(parse_recipe(tree), say=lambda words: None, draw=False)
    scores = finished.results["scores"]
    assert {"knn", "variance", "linear_0.5", "linear_1", "linear_1_top5"} <= set(scores)
    again = evaluate_run(finished.folder, "linear", [0.5, 1.0], seeds=1)
    assert [scores["linear_0.5"], scores["linear_1"]] == [100 * each.top1 for each in again.scores]
    assert scores["variance"] == pytest.approx(again.variance)


def test_a_probe_that_diverges_costs_its_score_and_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverged(*args: object, **options: object) -> None:
        raise ValueError("the mlp probe came to a loss of nan")

    monkeypatch.setattr("hypersphere.evaluation.probes.evaluate_run", diverged)
    monkeypatch.setattr("hypersphere.evaluation.probes.output_variance", lambda run: 1e30)
    recipe = parse_recipe(digits_recipe(tmp_path, evaluation={"after": ["mlp"], "shares": [0.1]}))
    said: list[str] = []
    scores = after.measure_after(recipe, tmp_path, said.append)
    assert scores["variance"] == 1e30
    assert math.isnan(scores["mlp_0.1"]) and said == ["No score mlp_0.1: the mlp probe came to a loss of nan."]


@pytest.mark.parametrize(
    ("make", "wanted", "sentence"),
    [
        (digits_recipe, ["sts"], "evaluation.after has sts, but for image there is linear and mlp and finetune"),
        (text_recipe, ["linear"], "evaluation.after has linear, but for text there is sts and transfer"),
        (text_recipe, ["transfer"], "evaluation.after needs the folder of the sets"),
    ],
)
def test_what_does_not_fit_the_task_is_refused(make, wanted, sentence, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=sentence):
        parse_recipe(make(tmp_path, evaluation={"after": wanted}))


def test_three_lines_are_scored_on_held_out_points_and_on_fresh_ones(tmp_path: Path) -> None:
    tree = {
        "task": "three-lines", "data": {"source": "three-lines", "rows": 90, "held_out": 30}, "steps": 3,
        "encoder": {"name": "mlp", "hidden": [8, 3], "norm": "none"}, "batch": {"size": 60}, "loggers": [],
        "evaluation": {"every": 3}, "output": str(tmp_path / "run"),
    }  # fmt: skip
    results = train(parse_recipe(tree), say=lambda words: None, draw=False).results
    assert set(results["history"]) == {0, 3} and 0 <= results["history"][3]["knn"] <= 100
    assert {"knn", "first_share", "first_share_centred", "class_cosine", "effective_rank"} == set(results["scores"])


def test_the_sets_of_sentences_are_those_that_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    nothing = SimpleNamespace(sts={}, transfer={})
    monkeypatch.setattr(
        "hypersphere.evaluation.sentences.evaluate_sentences",
        lambda model, **given: asked.append({"model": model, **given}) or nothing,
    )

    def ask(after_run: list[str], tasks: list[str]) -> None:
        tree = text_recipe(tmp_path, evaluation={"after": after_run, "tasks": tasks, "sts": "senteval"})
        after.measure_after(parse_recipe(tree), tmp_path, print)

    ask(["sts", "transfer"], ["CR", "STS13", "MRPC"])
    ask(["transfer"], [])
    ask(["transfer"], ["STS13"])
    assert [each["tasks"] for each in asked] == [["STS13", "CR", "MRPC"], list(transfer.TASKS)]
    assert asked[0]["sts"] == asked[0]["transfer"] == "senteval" and asked[0]["model"] == str(tmp_path / "model")
    with pytest.raises(ValueError, match="STS31"):
        ask(["sts"], ["STS31"])
