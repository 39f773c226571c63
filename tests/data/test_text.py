"""Text corpora: the same from every form, damaged ones refused."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from hypersphere.data.text import has_pairs, read_corpus


def test_a_corpus_reads_the_same_from_every_form(tmp_path: Path) -> None:
    text = "one two\n\nthree\nfour five six\n"
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(text.encode()))
    corpora = [read_corpus(str(tmp_path / name)) for name in ("a.txt", "a.txt.gz", "a.txt.xz")]
    assert all(each.columns == (["one two", "three", "four five six"],) and each.empty == 1 for each in corpora)
    assert len(read_corpus(str(tmp_path / "a.txt"), rows=2)) == 2


def test_pairs_and_triples_read_from_tables(tmp_path: Path) -> None:
    (tmp_path / "nli.csv").write_text('sent0,sent1,hard_neg\n"a, b",c,d\ne,f,g\n')
    corpus = read_corpus(str(tmp_path / "nli.csv"), "triples")
    assert corpus.columns == (["a, b", "e"], ["c", "f"], ["d", "g"])
    chosen = read_corpus(str(tmp_path / "nli.csv"), "pairs", columns=["sent0", "hard_neg"])
    assert chosen.columns == (["a, b", "e"], ["d", "g"])
    (tmp_path / "p.jsonl").write_text('{"q": "a", "a": "b"}\n{"q": "c", "a": "d"}\n')
    assert read_corpus(str(tmp_path / "p.jsonl"), "pairs").columns == (["a", "c"], ["b", "d"])


def test_a_saved_dataset_is_a_corpus(tmp_path: Path) -> None:
    import datasets

    table = {"id": [1, 2], "text": ["a b", "c d"], "other": ["e", "f"]}
    datasets.Dataset.from_dict(table).save_to_disk(str(tmp_path / "set"))
    assert read_corpus(f"hf:{tmp_path / 'set'}").columns == (["a b", "c d"],)
    assert read_corpus(f"hf:{tmp_path / 'set'}", columns=["other"]).columns == (["e", "f"],)
    with pytest.raises(ValueError, match="must give 1 columns of text; it has text, other, asked for body"):
        read_corpus(f"hf:{tmp_path / 'set'}", columns=["body"])
    with pytest.raises(ValueError, match="could not be loaded"):
        read_corpus("hf:no/such-dataset")


def test_damaged_text_is_refused(tmp_path: Path) -> None:
    whole = lzma.compress("\n".join(f"line {n}" for n in range(50_000)).encode())
    (tmp_path / "cut.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cut.xz is damaged or cut short after line \d+"):
        read_corpus(str(tmp_path / "cut.xz"))
    (tmp_path / "latin.txt").write_bytes("caf\xe9\nand\n".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8"):
        read_corpus(str(tmp_path / "latin.txt"))
    (tmp_path / "one.txt").write_text("alone\n")
    with pytest.raises(ValueError, match="holds 1 instance with text"):
        read_corpus(str(tmp_path / "one.txt"))


def test_lines_with_two_texts_each_are_pairs(tmp_path: Path) -> None:
    contents = {
        "pairs.txt": "one\ttwo\n\nthree\tfour\tfive\n",
        "lines.txt": "one\ttwo\nthree\n",
        "named.csv": "a\tb,c\n1\t2,3\n",
        "objects.jsonl": '{"a": "1", "b": "2"}\n',
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        assert has_pairs(str(tmp_path / name)) == (name == "pairs.txt"), name
    (tmp_path / "binary.tsv").write_bytes(b"\xff\t\xfe\n")
    assert not has_pairs(str(tmp_path / "binary.tsv")) and not has_pairs(str(tmp_path / "nothing.tsv"))
