"""The transfer sets: whole and English, in the order SentEval folds them."""

from pathlib import Path

import pytest

from hypersphere.data.transfer import load_transfer
from tests.data.senteval import write_transfer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_transfer(tmp_path_factory.mktemp("transfer"))


def test_the_seven_sets_have_their_numbers_of_rows(folder: Path) -> None:
    counts = {task: [len(split) for split in each.splits()] for task, each in load_transfer(folder).items()}
    assert counts == {
        "MR": [10662],
        "CR": [3775],
        "SUBJ": [10000],
        "MPQA": [10606],
        "SST2": [67349, 872, 1821],
        "TREC": [5452, 500],
        "MRPC": [4076, 1725],
    }


def test_rows_are_ordered_by_words_then_label_then_place(folder: Path) -> None:
    rows = load_transfer(folder, ["MR"])["MR"].train
    texts = {1: "rt-polarity.pos", 0: "rt-polarity.neg"}
    listed = [
        (" ".join(line.split()), label)
        for label in (1, 0)
        for line in (folder / "MR" / texts[label]).read_text().splitlines()
    ]
    expected = sorted(listed, key=lambda row: (len(row[0].split()), row[1]))
    assert list(zip(rows.texts, rows.labels.tolist(), strict=True)) == expected


def test_pairs_keep_their_halves_and_labels_together(folder: Path) -> None:
    split = load_transfer(folder, ["MRPC"])["MRPC"].test
    assert split is not None and split.second is not None
    listed = [line.split("\t") for line in (folder / "MRPC" / "msr_paraphrase_test.txt").read_text().splitlines()[1:]]
    rows = list(zip(split.texts, split.second, split.labels.tolist(), strict=True))
    assert sorted(rows) == sorted((row[3], row[4], int(row[0])) for row in listed)
    lengths = [(len(a.split()), len(b.split()), label) for a, b, label in rows]
    assert lengths == sorted(lengths)


def test_latin_letters_survive_and_the_finer_kind_is_dropped(folder: Path) -> None:
    rows = load_transfer(folder, ["TREC"])["TREC"].train
    place = rows.texts.index("Who is the man of the café ?")
    assert rows.labels[place] == 3  # HUM


def test_an_empty_line_is_a_row_of_its_own(folder: Path) -> None:
    assert load_transfer(folder, ["CR"])["CR"].train.texts.count(".") == 2


def translated(rows: list[str]) -> list[str]:
    """Every second sentence in Spanish."""
    return [rows[0], *("\t".join([*row.split("\t")[:4], "el plan de la ciudad es del equipo"]) for row in rows[1:])]


@pytest.mark.parametrize(
    "file, task, change, words",
    [
        ("SUBJ/subj.objective", "SUBJ", lambda rows: rows[:20], "objective has 20 rows where the set has 5000"),
        ("SST/binary/sentiment-dev", "SST2", lambda rows: rows[:-1], "has 871 rows where the set has 872"),
        ("SST/binary/sentiment-dev", "SST2", lambda rows: ["good\t2", *rows[1:]], "line 1: the label is '2'"),
        ("SST/binary/sentiment-dev", "SST2", lambda rows: ["good", *rows[1:]], "row 1: 1 columns where 2"),
        ("TREC/TREC_10.label", "TREC", lambda rows: ["WHO:x who ?", *rows[1:]], "'WHO', not one of ABBR"),
        ("MPQA/mpqa.pos", "MPQA", lambda rows: ["el plan de la ciudad"] * 3312, "mpqa.pos is not in English"),
        ("MRPC/msr_paraphrase_test.txt", "MRPC", translated, "not in English: of the words of its second sentences"),
    ],
)
def test_a_damaged_file_is_refused_with_its_numbers(folder: Path, file: str, task: str, change, words: str) -> None:
    path = folder / file
    before = path.read_bytes()
    try:
        path.write_text("".join(row + "\n" for row in change(before.decode("latin-1").splitlines())))
        with pytest.raises(ValueError, match=words):
            load_transfer(folder, [task])
    finally:
        path.write_bytes(before)


def test_a_missing_task_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no SUBJ"):
        load_transfer(tmp_path, ["SUBJ"])
    with pytest.raises(ValueError, match="there are MR, CR, SUBJ"):
        load_transfer(tmp_path, ["SST5"])
