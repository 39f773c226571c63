"""``hypersphere benchmark training``: what is refused before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hypersphere.cli.app import app
from hypersphere.studies.benchmark.training import Setting


def test_a_file_cannot_be_the_folder_of_the_training_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is said before anything is measured."""
    monkeypatch.setattr("hypersphere.studies.benchmark.training.measure", None)
    text = tmp_path / "text.txt"
    text.write_text("a line\n")
    done = CliRunner().invoke(app, ["benchmark", "training", "model", str(text), "--out", str(text)])
    assert done.exit_code == 2
    assert done.stderr == f"{text} cannot be written (Not a directory).\n"
    assert text.read_text() == "a line\n"


def test_the_options_are_the_setting_that_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def measure(setting: object, repeats: int, echo: object) -> object:
        asked.extend((setting, repeats))
        raise ValueError("the model has no tokenizer")

    monkeypatch.setattr("hypersphere.studies.benchmark.training.measure", measure)
    text = tmp_path / "text.txt"
    text.write_text("a line\n")
    words = ["model", str(text), "--batch", "8", "--steps", "7", "--repeats", "2", "--threads", "1", "--cache"]
    done = CliRunner().invoke(app, ["benchmark", "training", *words])
    assert (done.exit_code, done.stderr) == (2, "The model has no tokenizer.\n")
    assert asked == [Setting("model", str(text), 8, 7, threads=1, cache=True), 2]


def test_a_text_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["benchmark", "training", "model", str(tmp_path / "no.txt")])
    assert (done.exit_code, done.stderr) == (2, f"There is no text file {tmp_path / 'no.txt'}.\n")
