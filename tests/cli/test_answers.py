"""How refusals are spelt, and folders that are looked at before any work."""

import os
import subprocess
import sys
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from hypersphere.cli.answers import OneSentence, fail, need_folder


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
