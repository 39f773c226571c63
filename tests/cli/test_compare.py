"""``hypersphere compare``: its plan, and what a mistake is answered with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hypersphere.cli.app import app

runner = CliRunner()


def compare(*words: str) -> tuple[int, str, str]:
    done = runner.invoke(app, ["compare", *words])
    return done.exit_code, done.stdout, done.stderr


def test_the_plan_names_ranges_runs_and_time() -> None:
    code, said, _ = compare("digits", "--objectives", "ntxent,vicreg", "--trials", "4", "--seeds", "3", "--check")
    said = " ".join(said.split())
    assert code == 0
    assert "temperature 0.02 to 1" in said and "covariance 0.1 to 10" in said
    assert "Runs: 17: untrained 3, tuning 8, grid 0, test 6" in said and "Time: about" in said


def test_the_plan_for_machines_lists_every_cell_once() -> None:
    code, said, _ = compare(
        "digits", "--objectives", "ntxent,dhel", "--trials", "2", "--seeds", "2", "--check", "--json"
    )
    cells = json.loads(said)["cells"]
    assert code == 0 and len({cell["id"] for cell in cells}) == len(cells) == 2 + 4


def test_the_demo_is_a_shipped_study() -> None:
    code, said, _ = compare("demo", "--check")
    assert code == 0 and len([line for line in said.splitlines() if "optimizer.lr" in line]) >= 6


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["digits", "--objectives", "ntxent,dehl"], "did you mean 'dhel'"),
        (["digitz", "--objectives", "ntxent"], "did you mean 'digits'"),
        (["digits"], "objectives"),
        (["digits", "--objectives", "ntxent", "batch.sise=3"], "batch.size"),
        (["digits", "--objectives", "ntxent", "--metric", "mrr"], "has no metric mrr; it has knn"),
        (["digits", "--objectives", "ntxent", "--seeds", "0"], "eeds is 0: it should be greater than or equal to 1"),
        (["three-lines", "--objectives", "ntxent"], "this recipe needs data.held_out"),
        (["digits", "--objectives", "gone.py:loss"], "here is no file"),
        (["digits", "--objectives", "ntxent", "--import", "gone.py"], "here is no file"),
    ],
)
def test_a_mistake_is_one_sentence_with_exit_code_two(words: list[str], sentence: str, tmp_path: Path) -> None:
    code, said, error = compare(*words, "--output", str(tmp_path / "study"))
    assert code == 2 and said == "" and sentence in error and error.count("\n") == 1
    assert not (tmp_path / "study").exists()


def test_an_objective_file_that_does_not_import_is_named_with_its_line(tmp_path: Path, forgetful: None) -> None:
    (tmp_path / "mine.py").write_text("import torch\nimport nosuchmodule\n")
    code, _, error = compare("digits", "--objectives", f"{tmp_path / 'mine.py'}:loss")
    assert code == 2 and "line 2" in error and "nosuchmodule" in error


def test_a_storage_that_cannot_be_reached_leaves_nothing_behind(tmp_path: Path) -> None:
    words = ["digits", "--objectives", "ntxent", "--storage", "postgresql://me:secret@127.0.0.1:9/none"]
    code, _, error = compare(*words, "--output", str(tmp_path / "study"))
    assert code == 2 and "cannot be reached" in error and "secret" not in error
    assert not (tmp_path / "study").exists()


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    code, _, error = compare("digits", "--objectives", "ntxent", "--output", str(tmp_path))
    assert code == 2 and "holds no study" in error
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_signal_while_the_plan_is_made_ends_the_command_with_a_sentence(tmp_path: Path) -> None:
    code = (
        "import signal, sys; from hypersphere.studies.compare import study\n"
        "study.read_study = lambda *words, **given: signal.raise_signal(signal.SIGINT)\n"
        "from hypersphere.cli import main; main()"
    )
    words = ["compare", "digits", "--objectives", "ntxent", "--output", str(tmp_path / "study")]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "Interrupted; nothing was begun.")
    assert not (tmp_path / "study").exists()
