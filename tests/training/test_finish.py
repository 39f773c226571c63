"""The end of a run: what is measured of the final model, and what a full disk costs."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from hypersphere.cli.app import app
from hypersphere.data import transfer
from hypersphere.evaluation.probes import evaluate_run
from hypersphere.training import finish
from hypersphere.training import finish as finishing
from hypersphere.training.load import parse_recipe
from hypersphere.training.run import train
from tests.training import worlds
from tests.training.worlds import continued, digits_recipe, text_recipe


def test_probes_after_a_run_are_those_of_its_folder(tmp_path: Path) -> None:
    tree = digits_recipe(tmp_path, evaluation={"after": ["linear"], "shares": [0.5, 1.0]}, steps=2)
    finished = train(parse_recipe(tree), echo=lambda words: None, draw=False)
    scores = finished.results["scores"]
    assert {"knn", "variance", "linear_0.5", "linear_1", "linear_1_top5"} <= set(scores)
    again = evaluate_run(finished.folder, "linear", [0.5, 1.0], seeds=1)
    assert [scores["linear_0.5"], scores["linear_1"]] == [100 * each.top1 for each in again.scores]
    assert scores["variance"] == pytest.approx(again.variance)


def test_a_probe_that_diverges_costs_its_score_and_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverged(*args: object, **options: object) -> None:
        raise ValueError("the mlp probe came to a loss of nan")

    monkeypatch.setattr("hypersphere.evaluation.probes.evaluate_run", diverged)
    monkeypatch.setattr("hypersphere.evaluation.probes.ProbedRun.open", lambda run: SimpleNamespace(variance=1e30))
    recipe = parse_recipe(digits_recipe(tmp_path, evaluation={"after": ["mlp"], "shares": [0.1]}))
    said: list[str] = []
    scores = finish.measure_after(recipe, tmp_path, said.append)
    assert scores["variance"] == 1e30
    assert math.isnan(scores["mlp_0.1"]) and said == ["No score mlp_0.1: the mlp probe came to a loss of nan."]


def test_the_sets_of_sentences_are_those_that_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    nothing = SimpleNamespace(sts={}, transfer={})
    monkeypatch.setattr(
        "hypersphere.evaluation.sentences.evaluate_sentences",
        lambda model, **given: asked.append({"model": model, **given}) or nothing,
    )

    def ask(after_run: list[str], tasks: list[str]) -> None:
        tree = text_recipe(tmp_path, evaluation={"after": after_run, "tasks": tasks, "sts": "senteval"})
        finish.measure_after(parse_recipe(tree), tmp_path, print)

    ask(["sts", "transfer"], ["CR", "STS13", "MRPC"])
    ask(["transfer"], [])
    ask(["transfer"], ["STS13"])
    assert [each["tasks"] for each in asked] == [["STS13", "CR", "MRPC"], list(transfer.TASKS)]
    assert asked[0]["sts"] == asked[0]["transfer"] == "senteval" and asked[0]["model"] == str(tmp_path / "model")
    with pytest.raises(ValueError, match="STS31"):
        ask(["sts"], ["STS31"])


@pytest.mark.parametrize(
    "part, name", [("task.save", "model"), ("save_weights", "objective.safetensors"), ("atomic_write", "results.json")]
)
def test_a_disk_that_is_full_at_the_end_costs_a_sentence(
    trained: Path, copied: Path, monkeypatch: pytest.MonkeyPatch, part: str, name: str
) -> None:
    def full(*given: Any, **more: Any) -> None:
        raise OSError(28, "No space left on device")

    place = {
        "task.save": "hypersphere.training.images.save_image_encoder",
        "save_weights": "hypersphere.training.finish.save_weights",
        "atomic_write": "hypersphere.training.finish.atomic_write",
    }[part]
    if part == "atomic_write":  # embeddings and results go through it: only the last is refused
        real = finishing.atomic_write
        monkeypatch.setattr(place, lambda path, text: full() if path.name == name else real(path, text))
    else:
        monkeypatch.setattr(place, full)
    path = worlds.recipe_file(copied.parent, **worlds.digits_recipe(copied.parent))
    done = CliRunner().invoke(app, ["train", str(path), "--resume"])
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    sentence = done.stderr.strip().splitlines()[-1]
    assert f"{copied / name} could not be written" in sentence and "No space left on device" in sentence
    assert sentence.endswith("; step 6 is saved, and the same command with --resume continues it.")
    assert not (copied / "results.json").exists()
    monkeypatch.undo()
    assert continued(trained, copied.parent)[0]["steps"] == 6
