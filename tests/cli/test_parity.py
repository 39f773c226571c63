"""``hypersphere parity``: one peer measured, and bad input refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hypersphere.cli.app import app


def test_a_peer_is_measured_shown_and_written(tmp_path: Path) -> None:
    pytest.importorskip("info_nce")
    page = tmp_path / "parity.md"
    done = CliRunner().invoke(app, ["parity", "--peer", "info-nce-pytorch", "--processes", "1", "--out", str(page)])
    assert done.exit_code == 0, done.output
    assert "On one process: 1 of 1 losses are equal to ours." in done.stdout
    assert done.stdout.count("info-nce-pytorch") == 1
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Parity with other libraries")
    assert "| info-nce-pytorch |   infonce |" in text


def test_the_answer_for_machines_names_what_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.studies.parity.run.find_spec", lambda module: None)
    done = CliRunner().invoke(app, ["parity", "--peer", "sentence-transformers", "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["peers"] == {}
    assert answer["absent"]["sentence-transformers"].startswith("not installed; `pip install")


def test_without_another_library_there_is_no_empty_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.studies.parity.run.find_spec", lambda module: None)
    done = CliRunner().invoke(app, ["parity", "--peer", "sentence-transformers"])
    assert done.exit_code == 0, done.output
    first, second = done.stdout.splitlines()
    assert first == "No other library is installed to compare with."
    assert second.startswith("sentence-transformers: not installed")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--peer", "lightli"], "There is no peer 'lightli'; did you mean 'lightly'?"),
        (["--processes", "0"], "--processes must be whole numbers from 1 to 8"),
        (["--processes", "two"], "--processes must be whole numbers from 1 to 8"),
        (["--processes", ""], "--processes must be whole numbers from 1 to 8"),
        (["--python", "lightly"], "--python must be PEER=PATH"),
        (["--python", "lightli=python"], "There is no peer 'lightli'"),
        (["--python", "lightly=/no/such/python"], "There is no Python at /no/such/python"),
        (["--out", "."], "is a folder"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], sentence: str) -> None:
    done = CliRunner().invoke(app, ["parity", *words])
    assert done.exit_code == 2, done.output
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
