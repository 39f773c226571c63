"""Peers that are not here."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from hypersphere.studies.parity import run


def test_a_peer_that_is_not_installed_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "find_spec", lambda module: None)
    monkeypatch.setattr(run, "peers_environment", lambda: None)
    answer = run.run(["lightly", "info-nce-pytorch"], [1], {}, print)
    assert answer["peers"] == {}
    assert answer["absent"] == {
        "lightly": "not installed; `python benchmarks/peers_env/create.py` installs it",
        "info-nce-pytorch": "not installed; `pip install info-nce-pytorch` installs it",
    }


def test_an_interpreter_without_the_peer_is_named_as_the_reason() -> None:
    if find_spec("solo") is not None:
        pytest.skip("solo-learn is installed")
    answer = run.run(["solo-learn"], [1], {"solo-learn": sys.executable}, print)
    assert answer["absent"] == {"solo-learn": "cannot be measured: No module named 'solo'"}


def test_a_worker_that_answers_nothing_is_told_by_its_last_line(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho first >&2\necho the last line >&2\n")
    python.chmod(0o755)
    assert run.ask(str(python), "lightly", [1]) == {"failed": "the last line"}
    python.write_text("#!/bin/sh\nexit 3\n")
    assert run.ask(str(python), "lightly", [1]) == {"failed": "its process ended with code 3"}
    nowhere = str(tmp_path / "nowhere")
    assert run.ask(nowhere, "lightly", [1]) == {"failed": f"{nowhere} cannot be started (No such file or directory)"}


def test_the_interpreter_that_was_given_is_taken_first() -> None:
    assert run.interpreter("lightly", {"lightly": "/mine"}) == "/mine"
