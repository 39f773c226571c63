"""The folder of a run: who may write into it, and that a continued run keeps its recipe, data and objective."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import hypersphere as hs
from hypersphere.objectives import files, registry
from hypersphere.report.files import unfinished
from hypersphere.training.folder import claimed, describe, fingerprint_images, fingerprint_texts
from hypersphere.training.load import parse_recipe
from hypersphere.training.run import NotPreparedError, train
from tests.training import worlds
from tests.training.disk import killed_at, place_of
from tests.training.worlds import continued, quiet


def begin(folder: Path, resume: bool = False) -> bool:
    """A run as far as its first step; whether one was continued."""
    recipe = parse_recipe(worlds.digits_recipe(folder))
    with claimed(folder / "run", recipe, resume, leader=True) as continued:
        if not continued:
            describe(folder / "run", recipe)
    return continued


OWN = {"name": "mine.py:squared_triplet", "margin": 0.5}


def lines(folder: Path, **changes: Any) -> dict[str, Any]:
    tree = yaml.safe_load(Path(hs.__file__).with_name("training").joinpath("recipes/three-lines.yaml").read_text())
    small = {"objective": OWN, "steps": 2, "loggers": [], "output": str(folder / "run"), "data": {"rows": 30}}
    return worlds.changed(tree, {**small, "batch": {"size": 30}, **changes})


def begun(tree: dict[str, Any]) -> Path:
    """The folder of a run that was started and not finished."""
    recipe = parse_recipe(tree)
    folder = Path(recipe.output)
    folder.mkdir()
    describe(folder, recipe)
    return folder


def resumed(tree: dict[str, Any]) -> None:
    recipe = parse_recipe(tree)
    with claimed(Path(recipe.output), recipe, resume=True, leader=False):
        pass


def as_in_another_process() -> None:
    """No file has been executed yet."""
    files._LOADED.clear()
    files._CONTENT.clear()
    registry._REGISTRY.pop("squared_triplet")
    sys.modules.pop("mine")


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
    from hypersphere.training.folder import _same

    def anchored(base: Any) -> dict[str, Any]:
        objective = {"name": "cloa", "base": base, "num_classes": 3, "dim": 8}
        return parse_recipe(worlds.digits_recipe(Path("nowhere"), objective=objective)).resolved()

    _same(anchored("ntxent"), anchored({"name": "ntxent", "temperature": 0.5}))
    with pytest.raises(ValueError, match=r"objective.base.temperature=0.5, now it is 0.9"):
        _same(anchored("ntxent"), anchored({"name": "ntxent", "temperature": 0.9}))
    learned = [anchored({"name": "ntxent", "temperature": value, "learnable": True}) for value in (0.1, 0.7)]
    with pytest.raises(ValueError, match=r"objective.base.temperature=0.1, now it is 0.7;"):
        _same(*learned)


def test_a_run_is_not_continued_on_other_data(tmp_path: Path) -> None:
    tree = worlds.text_recipe(tmp_path)
    train(parse_recipe(tree), echo=quiet)
    (tmp_path / "run" / "results.json").unlink()
    corpus = tmp_path / "corpus.txt"
    lines = corpus.read_text().splitlines()
    corpus.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(NotPreparedError, match="the data had 64 rows when the run was started, now it has 63"):
        train(parse_recipe(tree), resume=True, echo=quiet)
    corpus.write_text("\n".join(reversed(lines)) + "\n")
    with pytest.raises(NotPreparedError, match="other rows than when the run was started, 64 as then"):
        train(parse_recipe(tree), resume=True, echo=quiet)
    path = tmp_path / "run" / "environment.json"
    whole = path.read_text()
    path.write_text(json.dumps({**json.loads(whole), "data": {}}))
    with pytest.raises(NotPreparedError, match=r"environment\.json is damaged: it does not name the data"):
        train(parse_recipe(tree), resume=True, echo=quiet)
    path.write_text(whole)
    environment = json.loads(path.read_text())
    del environment["data"]  # a folder of an older version does not say
    path.write_text(json.dumps(environment))
    train(parse_recipe(tree), resume=True, echo=quiet)


def test_fingerprints_differ_in_a_letter_a_pixel_and_a_label() -> None:
    texts = [["ab", "c"], ["d", "e"]]
    assert fingerprint_texts(texts) == fingerprint_texts([list(column) for column in texts])
    for other in ([["ab", "C"], ["d", "e"]], [["a", "bc"], ["d", "e"]], [["ab", "c", "d"], ["e"]], [["ab", "c"]]):
        assert fingerprint_texts(other).hash != fingerprint_texts(texts).hash
    images, labels = torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.arange(4)
    known = fingerprint_images(images, labels)
    changed = images.clone()
    changed[3, 0, 1, 1] = 1
    assert known == fingerprint_images(images.clone(), labels.clone()) and known.rows == 4
    hashes = {fingerprint_images(*each).hash for each in ((changed, labels), (images, labels.flip(0)))}
    assert len(hashes | {known.hash}) == 3


def test_a_folder_with_a_key_that_has_no_effect_is_continued(trained: Path, copied: Path) -> None:
    """Older versions took such keys without a word."""
    text = (copied / "recipe.yaml").read_text()
    (copied / "recipe.yaml").write_text(text.replace("data:\n", "data:\n  noise: 0.1\n  size: 16\n", 1))
    assert "noise: 0.1" in (copied / "recipe.yaml").read_text()
    assert continued(trained, copied.parent)[0]["steps"] == 6


def test_a_folder_that_takes_no_description_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hypersphere.training.folder.atomic_write", full)
    with pytest.raises(NotPreparedError, match="No space left on device"):
        train(parse_recipe(worlds.digits_recipe(tmp_path)), echo=quiet)
    assert not (tmp_path / "run").exists()


def test_a_kill_in_the_first_moments_strands_no_folder(tmp_path: Path) -> None:
    """At every change of a file until the run is described: the same command begins it, and so does --resume unless
    there is nothing at all."""
    with killed_at(tmp_path / "whole" / "run") as changes:
        begin(tmp_path / "whole")
    locked, described = changes.index("open .lock") + 1, place_of("recipe.yaml", changes)
    assert described > locked + 10
    for last in range(1, len(changes) + 1):
        for resume in (False, True):
            folder = tmp_path / f"{last}{resume}"
            with killed_at(folder / "run", last) as seen:
                begin(folder)
            assert len(seen) >= last
            if last > described and not resume:
                with pytest.raises(FileExistsError, match="--resume continues it"):
                    begin(folder)
            elif last <= locked and resume:
                with pytest.raises(FileNotFoundError, match="the same command without --resume begins it"):
                    begin(folder, resume)
            else:
                assert begin(folder, resume) == (last > described)
                assert (folder / "run" / "recipe.yaml").is_file() and not unfinished(folder)


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "mine.txt")
    with pytest.raises(ValueError, match=r"\.lock cannot be the lock of a run: it is a symbolic link"):
        begin(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_run_is_continued_with_the_same_file_even_if_it_moved(mine: Path) -> None:
    tree = lines(mine.parent)
    begun(tree)
    resumed(tree)
    as_in_another_process()
    moved = mine.rename(mine.with_name("moved.py"))
    resumed({**tree, "objective": {**OWN, "name": f"{moved}:squared_triplet"}})


def test_a_run_is_not_continued_with_a_changed_file(mine: Path) -> None:
    tree = lines(mine.parent)
    begun(tree)
    mine.write_text(mine.read_text() + "# another word\n")
    resumed(tree)  # this process goes on with what it executed
    as_in_another_process()
    with pytest.raises(ValueError, match=rf"^{mine} has changed since the run was started, and a resumed run keeps"):
        resumed(tree)


def test_a_run_is_not_continued_with_another_objective(mine: Path) -> None:
    tree = lines(mine.parent)
    begun(tree)
    for other in ({"name": "mine.py:pull"}, {"name": "met"}):
        with pytest.raises(ValueError, match=rf"started with the objective {mine}:squared_triplet; a resumed run"):
            resumed({**tree, "objective": other})
    with pytest.raises(ValueError, match=r"objective.margin=0.5, now it is 0.1"):
        resumed({**tree, "objective": {**OWN, "margin": 0.1}})


def test_a_folder_from_somebody_else_executes_nothing(mine: Path) -> None:
    tree = lines(mine.parent)
    folder = begun(tree)
    foreign = mine.parent / "foreign.py"
    foreign.write_text("from pathlib import Path\nPath('executed').touch()\n" + mine.read_text())
    kept = folder / "recipe.yaml"
    kept.write_text(kept.read_text().replace(str(mine), str(foreign)))
    for objective in (OWN, {"name": "met"}):
        with pytest.raises(ValueError, match=r"has changed since the run was started|started with the objective"):
            resumed({**tree, "objective": objective})
    assert not Path("executed").exists()


def test_a_run_that_goes_on_cannot_be_resumed_by_another(tmp_path: Path) -> None:
    import fcntl

    tree = worlds.digits_recipe(tmp_path)
    train(parse_recipe(tree), echo=quiet)
    (tmp_path / "run" / "results.json").unlink()
    with (tmp_path / "run" / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(NotPreparedError, match="being trained by another process"):
            train(parse_recipe(tree), resume=True, echo=quiet)
    train(parse_recipe(tree), resume=True, echo=quiet)


def test_somebody_elses_files_stay_where_they_are(tmp_path: Path) -> None:
    mine = tmp_path / "run" / "checkpoints" / "checkpoint-1" / "mine.bin"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(NotPreparedError, match="not empty and holds no run"):
        train(parse_recipe(worlds.digits_recipe(tmp_path)), echo=quiet)
    assert mine.read_text() == "mine"


def test_a_run_is_resumed_only_with_its_own_recipe(tmp_path: Path) -> None:
    tree = worlds.digits_recipe(tmp_path)
    train(parse_recipe(tree), echo=quiet)
    (tmp_path / "run" / "results.json").unlink()
    with pytest.raises(NotPreparedError, match="--resume continues it"):
        train(parse_recipe(tree), echo=quiet)
    with pytest.raises(NotPreparedError, match=r"optimizer.lr=0.001, now it is 0.5"):
        train(parse_recipe({**tree, "optimizer": {"lr": 0.5}}), resume=True, echo=quiet)
    with pytest.raises(NotPreparedError, match="no run to resume"):
        train(parse_recipe({**tree, "output": str(tmp_path / "other")}), resume=True, echo=quiet)
