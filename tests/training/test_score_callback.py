"""Scores while a run goes on: the best weights are kept, and a run that lost them goes on without."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

from hypersphere.cli.app import app
from hypersphere.report.files import unfinished
from hypersphere.training.load import parse_recipe
from hypersphere.training.run import create_task, train
from hypersphere.training.score_callback import ScoreCallback
from tests.training import worlds
from tests.training.disk import killed_at, place_of
from tests.training.worlds import assert_same, continued, quiet

SETTINGS: dict[str, Any] = {"steps": 2, "checkpoint": {"every": 1}, "evaluation": {"every": 1}, "monitor": {"every": 1}}


def command(folder: Path, *words: str) -> Result:
    folder.mkdir(exist_ok=True)
    path = worlds.recipe_file(folder, **worlds.digits_recipe(folder, **SETTINGS))
    return CliRunner().invoke(app, ["train", str(path), *words])


@pytest.mark.parametrize("damage", ["bit", "zeroed", "gone"])
def test_without_its_best_weights_a_run_keeps_its_last(trained: Path, copied: Path, damage: str) -> None:
    for path in (copied / "best").glob("step-*.safetensors"):
        whole = path.read_bytes()
        if damage == "bit":  # the lowest of one number
            path.write_bytes(whole[:-4] + bytes([whole[-4] ^ 1]) + whole[-3:])
        elif damage == "zeroed":
            save_file({name: torch.zeros_like(value) for name, value in load_file(path).items()}, path)
        else:
            path.unlink()
    results, said = continued(trained, copied.parent)
    lost = [sentence for sentence in said if sentence.startswith("The best weights so far, of step ")]
    assert len(lost) == 1 and lost[0].endswith("no others were kept.")
    assert "No weights with a score are left; the last weights are used." in said
    assert results["best_step"] is None and len(results["history"]) == 3
    last = load_file(copied / "checkpoints" / "checkpoint-6" / "model.safetensors")
    kept = load_file(copied / "model" / "encoder.safetensors")
    assert all(torch.equal(last[name], kept[name]) for name in kept)


def test_the_next_best_weights_are_taken_if_they_are_there(tmp_path: Path) -> None:
    """Scores are planted; the run resumes at step 2 with the weights of steps 1 and 2 on the disk, those of 2 cut."""
    said: list[str] = []
    task = create_task(parse_recipe(worlds.digits_recipe(tmp_path)), tmp_path / "run", quiet)
    planted = iter([50.0, 60.0, 70.0, 40.0])
    task.score = lambda: {"knn": next(planted)}
    evaluation = ScoreCallback(task, tmp_path / "best", 1, True, said.append)
    task.trainer.state.is_world_process_zero = True
    weight = next(task.trainer.encoder.parameters())
    for step in range(3):
        (tmp_path / "run" / "checkpoints" / f"checkpoint-{step}").mkdir(parents=True)
        task.trainer.state.global_step = step
        with torch.no_grad():
            weight.fill_(float(step))
        evaluation._evaluate(task.trainer.state)
    cut = tmp_path / "best" / "step-2.safetensors"
    cut.write_bytes(cut.read_bytes()[:-10])
    evaluation.remember(2)
    assert evaluation.best == 1 and "of step 2, cannot be read" in said[-1]
    assert said[-1].endswith("those of step 1 are the best now.")
    task.trainer.state.global_step = 3
    evaluation._evaluate(task.trainer.state)
    assert set(evaluation.scores) == {0, 1, 2, 3}
    assert evaluation.restore_best() == 1 and weight.flatten()[0].item() == 1.0


def test_a_run_that_starts_again_from_nothing_has_lost_no_weights(trained: Path, copied: Path) -> None:
    """It was killed before its first checkpoint, when the weights of step 0 were not the best any more."""
    shutil.rmtree(copied / "checkpoints")
    (copied / "best" / "step-0.safetensors").unlink(missing_ok=True)
    results, said = continued(trained, copied.parent)
    assert "Continuing from step 0." in said and not any("cannot be read" in sentence for sentence in said)
    scores = {step: each["knn"] for step, each in results["history"].items()}
    assert results["best_step"] == max(scores, key=lambda step: (scores[step], -step))


@pytest.mark.parametrize("content", ["{", "[]", '{"0": {"knn": 1.0}}', "another digit"])
def test_broken_scores_are_no_scores(trained: Path, copied: Path, content: str) -> None:
    path = copied / "best" / "scores.json"
    if content == "another digit":
        before = path.read_text()
        content = before.replace('"knn": ', '"knn": 1', 1)
        assert content != before
    path.write_text(content)
    results, said = continued(trained, copied.parent)
    assert any(sentence.startswith("The scores so far cannot be read (") for sentence in said)
    assert any(sentence == "No score was kept; the last weights are used." for sentence in said)
    assert (results["best_step"], results["history"]) == (None, {})


def test_scores_that_are_no_numbers_are_null_and_choose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_curves: None
) -> None:
    monkeypatch.setattr("hypersphere.training.images.ImageTask._knn", lambda *given: {"knn": math.nan})
    path = worlds.recipe_file(tmp_path, **worlds.digits_recipe(tmp_path))
    done = CliRunner().invoke(app, ["train", str(path), "--json"])
    assert done.exit_code == 0
    assert "No score is a number; the last weights are used." in done.stderr
    printed = json.loads(done.stdout, parse_constant=pytest.fail)
    run = tmp_path / "run"
    written = json.loads((run / "results.json").read_text(), parse_constant=pytest.fail)
    json.loads((run / "best" / "scores.json").read_text(), parse_constant=pytest.fail)
    for results in (printed, written):
        assert results["best_step"] is None and results["scores"] == {"knn": None}
        assert results["history"] == {step: {"knn": None} for step in ("0", "3", "6")}
    assert (run / "curves.png").is_file()
    last = load_file(run / "checkpoints" / "checkpoint-6" / "model.safetensors")
    kept = load_file(run / "model" / "encoder.safetensors")
    assert all(torch.equal(last[name], kept[name]) for name in kept)


def test_a_run_killed_between_best_weights_and_scores_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    """Where its best weights have their name, and their scores not yet; at the end the scores are sealed."""
    with killed_at(tmp_path / "whole" / "run") as changes:
        assert command(tmp_path / "whole").exit_code == 0
    folder = tmp_path / "killed"
    with killed_at(folder / "run", place_of("scores.json", changes)):
        command(folder)
    assert unfinished(folder)
    done = command(folder)
    assert done.exit_code == 2 and "holds an unfinished run: --resume continues it" in done.stderr
    assert command(folder, "--resume").exit_code == 0
    assert_same(tmp_path / "whole" / "run", folder / "run")
    assert not unfinished(folder)


def test_the_weights_kept_as_best_are_those_of_the_best_step(tmp_path: Path) -> None:
    """Scores are planted; a run resumed from an earlier checkpoint finds the weights that were the best then."""
    from hypersphere.training.run import create_task
    from hypersphere.training.score_callback import ScoreCallback

    task = create_task(parse_recipe(worlds.digits_recipe(tmp_path)), tmp_path / "run", quiet)
    planted = iter([50.0, float("nan"), 70.0, 60.0, 80.0])
    task.score = lambda: {"knn": next(planted)}
    evaluation = ScoreCallback(task, tmp_path / "best", 1, True, quiet)
    weight = next(task.trainer.encoder.parameters())
    for step in range(5):
        task.trainer.state.global_step = step
        task.trainer.state.is_world_process_zero = True
        with torch.no_grad():
            weight.fill_(float(step))
        evaluation._evaluate(task.trainer.state)
        if step == 3:
            (tmp_path / "run" / "checkpoints" / "checkpoint-3").mkdir(parents=True)
    assert evaluation.best == 4
    evaluation.remember(3)
    assert evaluation.restore_best() == 2
    assert weight.flatten()[0].item() == 2.0


def test_a_disk_that_takes_no_weights_costs_the_best_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hypersphere.training import score_callback

    def full(module: torch.nn.Module, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(score_callback, "save_weights", full)
    said: list[str] = []
    finished = train(parse_recipe(worlds.digits_recipe(tmp_path)), echo=said.append)
    assert any("could not be kept" in sentence and "No space left" in sentence for sentence in said)
    assert finished.results["best_step"] is None
