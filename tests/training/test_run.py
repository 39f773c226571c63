"""One run from a recipe to a folder: killed and resumed."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from typer.testing import CliRunner

import hypersphere as hs
from hypersphere import processes
from hypersphere.cli import main
from hypersphere.cli.app import app
from hypersphere.training.finish import UnfinishedError
from hypersphere.training.load import parse_recipe, read_recipe
from hypersphere.training.run import NotPreparedError, train
from tests.training import worlds
from tests.training.worlds import ENVIRONMENT, assert_same, quiet

OWN = {"name": "mine.py:squared_triplet", "margin": 0.5}


def lines(folder: Path, **changes: Any) -> dict[str, Any]:
    tree = yaml.safe_load(Path(hs.__file__).with_name("training").joinpath("recipes/three-lines.yaml").read_text())
    small = {"objective": OWN, "steps": 2, "loggers": [], "output": str(folder / "run"), "data": {"rows": 30}}
    return worlds.changed(tree, {**small, "batch": {"size": 30}, **changes})


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "hypersphere", "train", *words]


def run_command(*words: str) -> None:
    """The command, in a process forked off one that has its libraries."""
    torch.set_num_threads(1)
    sys.argv = ["hypersphere", *words]
    with open(os.devnull, "w") as sys.stdout, open(os.devnull, "w") as sys.stderr:
        main()


def test_a_disk_that_fails_on_the_way_costs_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hypersphere.training.trainer import ObjectiveTraining

    def broken(self: Any, *given: Any, **more: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(ObjectiveTraining, "training_step", broken)
    with pytest.raises(UnfinishedError, match=r"at step 0: .*Input/output error; nothing is saved, .* again"):
        train(parse_recipe(worlds.digits_recipe(tmp_path)), echo=quiet)


def test_a_run_trains_with_it_and_says_where_it_came_from(mine: Path) -> None:
    said: list[str] = []
    recipe = worlds.recipe_file(mine.parent, **lines(mine.parent))
    finished = hs.train(str(recipe), ["steps=3"], echo=said.append)
    assert finished.results["steps"] == 3
    assert f"Objective: {mine}:squared_triplet." in said
    kept = yaml.safe_load((finished.folder / "recipe.yaml").read_text())
    assert kept["objective"] == {"name": f"{mine}:squared_triplet", "margin": 0.5}
    environment = json.loads((finished.folder / "environment.json").read_text())
    assert environment["objective_files"] == {str(mine): hashlib.sha256(mine.read_bytes()).hexdigest()}
    assert environment["reads_labels"] is False
    assert "trained with squared_triplet\n" in (finished.folder / "model" / "README.md").read_text()


def test_what_fails_on_a_batch_is_refused_with_its_line_before_the_run_begins(mine: Path) -> None:
    mine.write_text("def f(z1, z2):\n    raise TypeError('no such thing')\n")
    with pytest.raises(NotPreparedError, match=rf"^{mine}, line 2: TypeError: no such thing$"):
        hs.train(parse_recipe(lines(mine.parent, objective={"name": "mine.py:f"})), echo=lambda _: None)
    assert not (mine.parent / "run").exists()


def test_changes_go_with_a_name() -> None:
    with pytest.raises(ValueError, match="changes go with a recipe by name or file"):
        hs.train(hs.read_recipe("digits"), ["steps=1"])


def test_without_its_extra_training_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'pydantic'", name="pydantic")

    monkeypatch.setattr(hs, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=r"^training needs pydantic: pip install 'hypersphere-lab\[text\]'"):
        hs.train("digits")


def constant(folder: Path, world: str) -> Path:
    """The recipe of a run of 16 steps. The schedule is constant: at a rate of zero, a step too many would not show."""
    changes: dict[str, Any] = {"steps": 16, "checkpoint": {"every": 5}, "schedule": {"name": "constant"}}
    if world == "text":
        return worlds.recipe_file(folder, **worlds.text_recipe(folder, **changes))
    changes["evaluation"] = {"every": 4, "best": False}
    return worlds.recipe_file(folder, **worlds.digits_recipe(folder, **changes))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Trains in a world without interruption, once, and returns the folder of the run."""

    @functools.cache
    def run(world: str) -> Path:
        folder = tmp_path_factory.mktemp(world)
        train(read_recipe(str(constant(folder, world))), echo=quiet)
        return folder / "run"

    return run


@pytest.mark.parametrize(
    "world, moment, step",
    [
        ("text", "checkpoint-5/sealed.json", 5),
        ("digits", "checkpoint-10/sealed.json", 10),
        ("digits", "checkpoint-5", 0),
    ],
    ids=["text-after-5", "digits-after-10", "digits-while-5-is-written"],
)
def test_a_killed_run_resumes_to_the_weights_of_an_uninterrupted_one(
    tmp_path: Path, uninterrupted: Callable[[str], Path], world: str, moment: str, step: int
) -> None:
    torch.set_num_threads(1)  # as in the process that is killed: another number of threads adds up in another order
    path = str(constant(tmp_path, world))
    run, nowhere = tmp_path / "run", subprocess.DEVNULL
    if world == "text":
        job: Any = subprocess.Popen(command(path), env=ENVIRONMENT, stderr=nowhere, stdout=nowhere)
        ended, wait = job.poll, job.wait
    else:  # without the seconds of its imports
        job = processes.start(run_command, "train", path, daemon=True)
        ended, wait = (lambda: job.exitcode), job.join
    while not (run / "checkpoints" / moment).exists() and ended() is None:
        time.sleep(0.001)
    job.kill()
    wait()
    assert not (run / "results.json").exists()
    done = CliRunner().invoke(app, ["train", path, "--resume"])
    assert done.exit_code == 0, done.output
    continued = next(line for line in done.stdout.splitlines() if line.startswith("Continuing from step "))
    assert int(continued.split()[-1].strip(".")) >= step
    assert_same(uninterrupted(world), run)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [(line["step"], line["split"]) for line in lines]
    assert len(steps) == len(set(steps)) > 2


def test_a_run_killed_after_its_last_step_is_not_trained_further(tmp_path: Path) -> None:
    changes = {"steps": 6, "checkpoint": {"every": 3}, "schedule": {"name": "constant"}, "evaluation": {"best": False}}
    tree = worlds.digits_recipe(tmp_path, **changes)
    train(parse_recipe({**tree, "output": str(tmp_path / "whole")}), echo=quiet)
    train(parse_recipe(tree), echo=quiet)
    (tmp_path / "run" / "results.json").unlink()
    finished = train(parse_recipe(tree), resume=True, echo=quiet)
    assert finished.results["steps"] == 6
    assert set(finished.results["history"]) == {0, 3, 6}
    assert_same(tmp_path / "whole", tmp_path / "run")
