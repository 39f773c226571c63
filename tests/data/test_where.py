"""Data by name, wherever a machine keeps it."""

from pathlib import Path

from hypersphere.data.text import read_corpus
from hypersphere.documents import locate


def test_data_is_looked_for_in_the_folder_that_the_environment_names(tmp_path, monkeypatch):
    (tmp_path / "data" / "wiki.txt").parent.mkdir()
    (tmp_path / "data" / "wiki.txt").write_text("a\nb\n")
    monkeypatch.chdir(tmp_path)
    assert locate("wiki.txt") == Path("wiki.txt")
    monkeypatch.setenv("HYPERSPHERE_DATA", str(tmp_path / "data"))
    assert locate("wiki.txt") == tmp_path / "data" / "wiki.txt"
    assert len(read_corpus("wiki.txt")) == 2
    (tmp_path / "wiki.txt").write_text("here\nfirst\nnow\n")
    assert len(read_corpus("wiki.txt")) == 3  # the working directory comes first
    assert locate("nowhere.txt") == Path("nowhere.txt")
