"""How refusals are spelt, and folders that are looked at before any work."""

import pytest
import typer

from hypersphere.cli.answers import need_folder, refuse


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
        refuse(given)
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == f"{said}\n"


def test_a_folder_is_tried_and_not_made(tmp_path, capsys):
    need_folder(tmp_path / "new" / "newer")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("kept")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(typer.Exit):
            need_folder(place)
        assert f"{place} cannot be written (Not a directory)." in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "kept"
