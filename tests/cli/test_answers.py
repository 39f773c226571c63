"""How refusals are spelt, and folders that are looked at before any work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from hypersphere.cli.answers import OneSentence, fail, need_folder
from hypersphere.cli.app import app
from hypersphere.messages import LONGEST


@pytest.mark.parametrize(
    "given, said",
    [
        ("there is no file z.npy.", "There is no file z.npy."),
        ("labels, if there are any, name classes.", "Labels, if there are any, name classes."),
        ("empty.npy cannot be read.", "empty.npy cannot be read."),
        ("r1 holds a finished run.", "r1 holds a finished run."),
        ("runs/mine holds a finished run.", "runs/mine holds a finished run."),
        ("max_length is 600.", "max_length is 600."),
        ("--views is one of two.", "--views is one of two."),
    ],
)
def test_only_ordinary_words_get_a_capital_letter(given, said, capsys):
    with pytest.raises(typer.Exit) as ended:
        fail(given)
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == f"{said}\n"


@pytest.mark.parametrize(
    "typed, given, said",
    [
        (["ro/x.html"], "ro cannot be written (Permission denied).", "ro cannot be written (Permission denied)."),
        (["my runs/x"], "my runs cannot be written.", "my runs cannot be written."),
        (["output=mine"], "mine holds a finished run.", "mine holds a finished run."),
        (["t"], "there is no model t.", "There is no model t."),
        (["there.npy"], "there is no file there.npy.", "There is no file there.npy."),
        ([], "corpus is empty.", "corpus is empty."),  # a file that is there
        ([], "corpora are empty.", "Corpora are empty."),
    ],
)
def test_names_are_never_changed(typed, given, said, tmp_path, monkeypatch):
    app = typer.Typer(cls=OneSentence)
    app.callback()(lambda: None)

    @app.command()
    def judge(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        fail(given)

    (tmp_path / "corpus").touch()
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, ["judge", *typed])
    assert answer.exit_code == 2 and answer.stderr == f"{said}\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no disk that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_gets_one_sentence(unbuffered):
    program = """
import typer
from hypersphere.cli.answers import OneSentence, console
app = typer.Typer(cls=OneSentence)
app.callback(invoke_without_command=True)(lambda: console().print("an answer"))
app()
"""
    with open("/dev/full", "w") as full:
        ended = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONUNBUFFERED": unbuffered})  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr == "The output could not be written (No space left on device).\n"


def test_a_folder_is_tried_and_not_made(tmp_path, capsys):
    need_folder(tmp_path / "new" / "newer")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("kept")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(typer.Exit):
            need_folder(place)
        assert f"{place} cannot be written (Not a directory)." in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "kept"


def test_a_console_without_greek_gets_escapes() -> None:
    answer = CliRunner(charset="ascii").invoke(app, ["objectives", "infonce"])
    assert answer.exit_code == 0 and r"e^{s_ii/\u03c4}" in answer.stdout


def answer_to(error: Exception, *words: str) -> Any:
    own = typer.Typer(cls=OneSentence, pretty_exceptions_enable=False)
    own.callback()(lambda: None)

    @own.command()
    def fail(name: str = "") -> None:
        raise error

    return CliRunner().invoke(own, ["fail", *words])


@pytest.mark.parametrize(
    "error, code, words",
    [
        (ValueError("z.npy is odd"), 2, "z.npy is odd."),
        (FileNotFoundError(2, "No such file", "z.npy"), 2, "z.npy: No such file."),
        (MemoryError(), 2, "There is not enough memory for it."),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 1 bytes"), 2, "There is not enough memory for it."),
        (RecursionError("maximum recursion depth exceeded"), 2, "It is nested too deeply."),
        (EOFError("half a file"), 2, "EOFError: half a file."),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"), 2, "'utf-8' codec can't decode byte 0xff"),
        (ValueError("\x1b[2J" + "x" * 10**6), 2, r"\x1b[2Jxxx"),
        (KeyError("x" * 1000), 1, "Unexpected KeyError: KeyError: 'xxx"),
    ],
)
def test_an_error_that_no_command_foresaw_is_a_sentence(error: Exception, code: int, words: str) -> None:
    answer = answer_to(error)
    assert answer.exit_code == code, answer.output
    (line,) = filter(None, answer.stderr.splitlines())
    assert line.startswith(words) and len(line) <= LONGEST + 1
    assert line.endswith("--debug shows where.") == (code == 1)


def test_debug_shows_where_an_error_came_from(here: Path) -> None:
    told = answer_to(KeyError("x"), "--debug").stderr
    assert "Traceback" in told and "raise error" in told
    (here / "r.yaml").write_text("a: 1\na: 2")
    for words in (["--debug", "train", "r.yaml"], ["train", "r.yaml", "--debug"]):
        told = CliRunner().invoke(app, words)
        assert told.exit_code == 2 and "Traceback" in told.stderr and told.stderr.endswith("is there twice.\n")
    assert "Traceback" not in CliRunner().invoke(app, ["train", "r.yaml"]).stderr
    assert "--debug" in answer_to(KeyError("x"), "--name", "--", "--debug").stderr  # after --, a word like any other


def test_a_refusal_is_cut_in_its_middle(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        fail(f"the file {'x' * 1000} is odd; remove it.")
    told = capsys.readouterr().err.rstrip("\n")
    assert len(told) <= LONGEST and told.startswith("The file xxx") and told.endswith("x is odd; remove it.")
