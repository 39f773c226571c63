"""The command as a user types it, in this process, and its refusals."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from hypersphere.cli.app import app
from hypersphere.messages import LONGEST


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(answer: Any, sentence: str) -> None:
    """One sentence with these words, and exit code 2."""
    assert answer.exit_code == 2, answer.output
    assert sentence.lower() in answer.stderr.lower()
    assert len(answer.stderr.strip().splitlines()) == 1


def refusal(*words: object) -> str:
    """The sentence with which the command refuses."""
    answer = run(*words)
    assert answer.exit_code == 2, answer.output
    lines: list[str] = answer.stderr.splitlines()
    assert len(lines) == 1 and len(lines[0]) <= LONGEST, answer.stderr
    assert lines[0].isprintable()
    return lines[0]
