"""A run whose objective stands in a file of the user's own: found again, compared, and executed for its user only."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import hypersphere as hs
from hypersphere.objectives import files, registry
from hypersphere.objectives.registry import import_file
from hypersphere.training.folder import claimed, describe
from hypersphere.training.reading import parse_recipe, read_recipe, write_recipe
from hypersphere.training.run import NotPreparedError
from tests.training import worlds

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


def test_a_run_trains_with_it_and_says_where_it_came_from(mine: Path) -> None:
    said: list[str] = []
    recipe = worlds.recipe_file(mine.parent, **lines(mine.parent))
    finished = hs.train(str(recipe), ["steps=3"], say=said.append)
    assert finished.results["steps"] == 3
    assert f"Objective: {mine}:squared_triplet." in said
    kept = yaml.safe_load((finished.folder / "recipe.yaml").read_text())
    assert kept["objective"] == {"name": f"{mine}:squared_triplet", "margin": 0.5}
    environment = json.loads((finished.folder / "environment.json").read_text())
    assert environment["objective_files"] == {str(mine): hashlib.sha256(mine.read_bytes()).hexdigest()}
    assert environment["reads_labels"] is False
    assert "trained with squared_triplet\n" in (finished.folder / "model" / "README.md").read_text()


def test_in_a_recipe_the_file_lies_beside_it_and_on_the_command_line_in_the_working_directory(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = worlds.recipe_file(mine.parent, **lines(mine.parent))
    elsewhere = mine.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert read_recipe(str(recipe)).objective["name"] == f"{mine}:squared_triplet"
    with pytest.raises(ValueError, match=f"there is no file {elsewhere}/mine.py"):
        read_recipe(str(recipe), ["objective=mine.py:pull"])
    assert read_recipe(str(recipe), ["objective=../mine.py:pull"]).objective == {"name": f"{mine}:pull"}


def test_an_imported_name_is_kept_with_its_file(mine: Path) -> None:
    import_file(mine)
    words = ["objective.name=cloa", "objective.base=squared_triplet", "objective.num_classes=3", "objective.dim=3"]
    recipe = read_recipe("three-lines", ["objective={}", *words])
    assert recipe.objective["base"] == f"{mine}:squared_triplet"
    assert read_recipe(str(worlds.recipe_file(mine.parent, **yaml.safe_load(write_recipe(recipe))))) == recipe


def test_a_mistake_in_it_is_one_sentence_of_the_recipe(mine: Path) -> None:
    mine.write_text("import torch\nfrom nowhere_at_all import loss\n")
    with pytest.raises(ValueError, match=rf"^{mine}, line 2: ModuleNotFoundError: No module named 'nowhere_at_all'$"):
        parse_recipe(lines(mine.parent))


def test_what_fails_on_a_batch_is_refused_with_its_line_before_the_run_begins(mine: Path) -> None:
    mine.write_text("def f(z1, z2):\n    raise TypeError('no such thing')\n")
    with pytest.raises(NotPreparedError, match=rf"^{mine}, line 2: TypeError: no such thing$"):
        hs.train(parse_recipe(lines(mine.parent, objective={"name": "mine.py:f"})), say=lambda _: None)
    assert not (mine.parent / "run").exists()


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


def test_changes_go_with_a_name() -> None:
    with pytest.raises(ValueError, match="changes go with a recipe by name or file"):
        hs.train(hs.read_recipe("digits"), ["steps=1"])


def test_without_its_extra_training_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'pydantic'", name="pydantic")

    monkeypatch.setattr(hs, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=r"^training needs pydantic: pip install 'hypersphere-lab\[text\]'"):
        hs.train("digits")
