"""A run that is continued: with its own recipe and data, without weights it has lost, after a disk was full."""

from __future__ import annotations

import json
import math
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from hypersphere.cli.app import app
from hypersphere.training import run as running
from hypersphere.training.content import content_of_images, content_of_texts
from hypersphere.training.evaluating import Evaluation
from hypersphere.training.images import prepare_images
from hypersphere.training.reading import parse_recipe
from hypersphere.training.run import NotPreparedError, UnfinishedError, train
from hypersphere.training.trainer import save_weights
from tests.training import worlds


def quiet(sentence: str) -> None:
    """Nothing to say."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the digits that has written everything but the file that says it is over."""
    folder = tmp_path_factory.mktemp("trained")
    train(parse_recipe(worlds.digits_recipe(folder)), say=quiet)
    (folder / "run" / "results.json").unlink()
    return folder / "run"


def continued(trained: Path, folder: Path, **changes: Any) -> tuple[dict[str, Any], list[str]]:
    """The results of a copy of the run that goes on, and what it says."""
    said: list[str] = []
    found = train(parse_recipe(worlds.digits_recipe(folder, **changes)), resume=True, say=said.append)
    return found.results, said


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


# --- the same recipe, the same data


def test_a_setting_of_the_objective_that_was_not_written_is_kept_too(trained: Path, copied: Path) -> None:
    same = {"name": "ntxent", "temperature": 0.2}
    for other, sentence in (
        ({**same, "reduction": "sum"}, "objective.reduction=mean, now it is sum"),
        ({"name": "ntxent"}, "objective.temperature=0.2, now it is 0.5"),
        ({"name": "infonce", "temperature": 0.2}, "objective.name=ntxent, now it is infonce"),
        ({**same, "learnable": True}, "objective.learnable=False, now it is True"),
    ):
        with pytest.raises(NotPreparedError, match=sentence):
            continued(trained, copied.parent, objective=other)
    results, _ = continued(trained, copied.parent, objective={**same, "reduction": "mean"})  # a default, written out
    assert results["steps"] == 6


def test_settings_of_an_objective_inside_another_are_kept_too() -> None:
    from hypersphere.training.folder import _same, resolved

    def anchored(base: Any) -> dict[str, Any]:
        objective = {"name": "cloa", "base": base, "num_classes": 3, "dim": 8}
        return resolved(parse_recipe(worlds.digits_recipe(Path("nowhere"), objective=objective)))

    _same(anchored("ntxent"), anchored({"name": "ntxent", "temperature": 0.5}))
    with pytest.raises(ValueError, match=r"objective.base.temperature=0.5, now it is 0.9"):
        _same(anchored("ntxent"), anchored({"name": "ntxent", "temperature": 0.9}))
    learned = [anchored({"name": "ntxent", "temperature": value, "learnable": True}) for value in (0.1, 0.7)]
    with pytest.raises(ValueError, match=r"objective.base.temperature=0.1, now it is 0.7;"):
        _same(*learned)


def test_a_run_is_not_continued_on_other_data(tmp_path: Path) -> None:
    tree = worlds.text_recipe(tmp_path)
    train(parse_recipe(tree), say=quiet)
    (tmp_path / "run" / "results.json").unlink()
    corpus = tmp_path / "corpus.txt"
    lines = corpus.read_text().splitlines()
    corpus.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(NotPreparedError, match="the data had 64 rows when the run was started, now it has 63"):
        train(parse_recipe(tree), resume=True, say=quiet)
    corpus.write_text("\n".join(reversed(lines)) + "\n")
    with pytest.raises(NotPreparedError, match="other rows than when the run was started, 64 as then"):
        train(parse_recipe(tree), resume=True, say=quiet)
    path = tmp_path / "run" / "environment.json"
    whole = path.read_text()
    path.write_text(json.dumps({**json.loads(whole), "data": {}}))
    with pytest.raises(NotPreparedError, match=r"environment\.json is damaged: it does not say which data"):
        train(parse_recipe(tree), resume=True, say=quiet)
    path.write_text(whole)
    environment = json.loads(path.read_text())
    del environment["data"]  # a folder of an older version does not say
    path.write_text(json.dumps(environment))
    train(parse_recipe(tree), resume=True, say=quiet)


def test_contents_differ_in_a_letter_a_pixel_and_a_label() -> None:
    texts = [["ab", "c"], ["d", "e"]]
    assert content_of_texts(texts) == content_of_texts([list(column) for column in texts])
    for other in ([["ab", "C"], ["d", "e"]], [["a", "bc"], ["d", "e"]], [["ab", "c", "d"], ["e"]], [["ab", "c"]]):
        assert content_of_texts(other).hash != content_of_texts(texts).hash
    images, labels = torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.arange(4)
    known = content_of_images(images, labels)
    changed = images.clone()
    changed[3, 0, 1, 1] = 1
    assert known == content_of_images(images.clone(), labels.clone()) and known.rows == 4
    hashes = {content_of_images(*each).hash for each in ((changed, labels), (images, labels.flip(0)))}
    assert len(hashes | {known.hash}) == 3


def test_a_folder_with_a_key_that_has_no_effect_is_continued(trained: Path, copied: Path) -> None:
    """Older versions took such keys without a word."""
    text = (copied / "recipe.yaml").read_text()
    (copied / "recipe.yaml").write_text(text.replace("size: null", "size: 16", 1))
    assert "size: 16" in (copied / "recipe.yaml").read_text()
    assert continued(trained, copied.parent)[0]["steps"] == 6


# --- weights that were lost


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
    task = prepare_images(parse_recipe(worlds.digits_recipe(tmp_path)), tmp_path / "run", quiet)
    planted = iter([50.0, 60.0, 70.0, 40.0])
    task.score = lambda: {"knn": next(planted)}
    evaluation = Evaluation(task, tmp_path / "best", 1, True, said.append)
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


def test_weights_are_readable_by_all_like_everything_else(trained: Path) -> None:
    files = [trained / "objective.safetensors", trained / "recipe.yaml", *(trained / "best").iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644}


def test_weights_reach_the_disk_before_their_name_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library that writes them puts one file in the place of another: the one that stays must be synced."""
    import os

    synced: list[tuple[int, bool]] = []
    real = os.fsync

    def noted(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, (tmp_path / "w").exists()))
        real(handle)

    monkeypatch.setattr(os, "fsync", noted)
    save_weights(torch.nn.Linear(2, 2), tmp_path / "w")
    assert synced == [((tmp_path / "w").stat().st_ino, False), (tmp_path.stat().st_ino, True)]


PEAK = """
import resource, sys, torch
from pathlib import Path
from hypersphere.training.trainer import save_weights
save_weights(torch.nn.Linear(2, 2), Path(sys.argv[1]))
module = torch.nn.Linear(4096, 4096)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
save_weights(module, Path(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_weights_are_written_without_a_copy_of_the_file_in_memory(tmp_path: Path) -> None:
    """67 MB of weights: they are cloned, since two names may share memory, and no more."""
    said = subprocess.run([sys.executable, "-c", PEAK, str(tmp_path / "w")], capture_output=True, text=True, check=True)
    assert 1000 * int(said.stdout.split()[-1]) < 1.5 * 4096 * 4097 * 4


# --- scores that are no numbers


def test_scores_that_are_no_numbers_are_null_and_choose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypersphere.training.images._knn", lambda *given: lambda: {"knn": math.nan})
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
    last = load_file(run / "checkpoints" / "checkpoint-6" / "model.safetensors")
    kept = load_file(run / "model" / "encoder.safetensors")
    assert all(torch.equal(last[name], kept[name]) for name in kept)


# --- the end


@pytest.mark.parametrize(
    "part, name", [("task.save", "model"), ("save_weights", "objective.safetensors"), ("write_whole", "results.json")]
)
def test_a_disk_that_is_full_at_the_end_costs_a_sentence(
    trained: Path, copied: Path, monkeypatch: pytest.MonkeyPatch, part: str, name: str
) -> None:
    def full(*given: Any, **more: Any) -> None:
        raise OSError(28, "No space left on device")

    place = {
        "task.save": "hypersphere.training.images.save_image_encoder",
        "save_weights": "hypersphere.training.trainer.save_weights",
        "write_whole": "hypersphere.training.run.write_whole",
    }[part]
    if part == "write_whole":  # embeddings and results go through it: only the last is refused
        real = running.write_whole
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


def test_a_disk_that_fails_on_the_way_costs_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hypersphere.training.trainer import ObjectiveTraining

    def broken(self: Any, *given: Any, **more: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(ObjectiveTraining, "training_step", broken)
    with pytest.raises(UnfinishedError, match=r"at step 0: .*Input/output error; nothing is saved, .* again"):
        train(parse_recipe(worlds.digits_recipe(tmp_path)), say=quiet)


def test_a_folder_that_takes_no_description_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hypersphere.training.folder.write_whole", full)
    with pytest.raises(NotPreparedError, match="No space left on device"):
        train(parse_recipe(worlds.digits_recipe(tmp_path)), say=quiet)
    assert not (tmp_path / "run").exists()
