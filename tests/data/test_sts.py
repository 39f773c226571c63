"""The STS sets: whole and English, or refused with the file and the numbers."""

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.data.sts import load_sick, load_sts, load_sts_benchmark, load_sts_year
from tests.data.senteval import sentence, write_sts

DUTCH = (
    "Een man speelt gitaar op het podium en de president is in de stad",
    "Twee honden rennen over het gras van het park of over de straat",
    "De minister zei dat het plan van de regering niet duidelijk is",
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sts(tmp_path_factory.mktemp("senteval"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "senteval"))


def rewrite(path: Path, change) -> None:
    path.write_text("".join(line + "\n" for line in change(path.read_text().splitlines())))


def test_the_seven_sets_have_their_numbers_of_pairs(folder: Path) -> None:
    """STS12's ALL is not counted again, STS13's SMT has no input, pairs without gold are dropped."""
    counts = {task: sum(map(len, parts)) for task, parts in load_sts(folder).items()}
    assert counts == {
        "STS12": 3108,
        "STS13": 1500,
        "STS14": 3750,
        "STS15": 3000,
        "STS16": 1186,
        "STS-B": 1379,
        "SICK-R": 4927,
    }


def test_a_pair_without_gold_takes_its_sentences_with_it(folder: Path) -> None:
    forums = load_sts_year(folder, "STS15")[0]
    rows = (folder / "STS" / "STS15-en-test" / "STS.input.answers-forums.txt").read_text().splitlines()
    gold = (folder / "STS" / "STS15-en-test" / "STS.gs.answers-forums.txt").read_text().splitlines()
    expected = [(*row.split("\t"), float(score)) for row, score in zip(rows, gold, strict=True) if score]
    assert list(zip(forums.first, forums.second, forums.scores, strict=True)) == expected


@pytest.mark.parametrize("inside", ["STS", "STS/STSBenchmark", "."])
def test_the_benchmark_is_found_from_any_folder_above_it(folder: Path, inside: str) -> None:
    pairs = load_sts_benchmark(folder / inside, "dev")
    assert len(pairs) == 1500 and pairs.scores.min() >= 0
    row = (folder / "STS" / "STSBenchmark" / "sts-dev.csv").read_text().splitlines()[3].split("\t")
    assert (pairs.first[3], pairs.second[3], pairs.scores[3]) == (row[5], row[6], float(row[4]))


@pytest.mark.parametrize(
    "file, change, words",
    [
        ("STS12-en-test/STS.input.MSRpar.txt", lambda rows: rows[:20], r"MSRpar.txt has 20 .* 750: .*truncated"),
        ("STS14-en-test/STS.gs.images.txt", lambda rows: rows[:-1], r"images.txt has 750 .* 749"),
        ("STS16-en-test/STS.gs.headlines.txt", lambda rows: [*rows[:-1], ""], "headlines.txt has 248 .* 249"),
        ("STS13-en-test/STS.gs.FNWN.txt", lambda rows: ["7.5", *rows[1:]], "7.5 .*outside the scale 0 to 5"),
        ("STS13-en-test/STS.gs.FNWN.txt", lambda rows: ["nan", *rows[1:]], "row 1: the score is 'nan', not a finite"),
        ("STS13-en-test/STS.gs.OnWN.txt", lambda rows: ["five", *rows[1:]], "'five', not a finite number"),
        ("STS13-en-test/STS.input.OnWN.txt", lambda rows: [sentence(1), *rows[1:]], "row 1: .* columns"),
        ("STSBenchmark/sts-test.csv", lambda rows: rows[:700], "sts-test.csv has 700 rows .* 1379"),
        ("STSBenchmark/sts-test.csv", lambda rows: [*rows, rows[0]], "1380 rows .* not the original"),
        ("../SICK/SICK_test_annotated.txt", lambda rows: rows[:1000], "has 999 rows .* 4927"),
    ],
)
def test_a_damaged_file_is_refused_with_its_numbers(folder: Path, file: str, change, words: str) -> None:
    rewrite(folder / "STS" / file, change)
    with pytest.raises(ValueError, match=words):
        load_sts(folder)


def test_a_cut_in_both_files_of_a_part_is_noticed(folder: Path) -> None:
    for kind in ("input", "gs"):
        rewrite(folder / "STS" / "STS12-en-test" / f"STS.{kind}.MSRvid.txt", lambda rows: rows[:300])
    with pytest.raises(ValueError, match="has 300 scored pairs where the set has 750"):
        load_sts_year(folder, "STS12")


@pytest.mark.parametrize("translated", [DUTCH, ("一个男人在弹吉他", "两只狗在公园里跑")], ids=["Dutch", "Chinese"])
def test_a_translated_copy_with_the_right_counts_is_refused(folder: Path, translated: tuple[str, ...]) -> None:
    path = folder / "STS" / "STS13-en-test" / "STS.input.headlines.txt"
    rewrite(path, lambda rows: [f"{translated[i % 2]}\t{translated[-1]}" for i in range(len(rows))])
    with pytest.raises(ValueError, match=r"headlines.txt is not in English: .*%"):
        load_sts_year(folder, "STS13")


@pytest.mark.parametrize("side", [0, 1])
def test_a_copy_translated_on_one_side_is_refused(folder: Path, side: int) -> None:
    """Both sides together have more English function words than is asked for, and more than Dutch ones."""
    path = folder / "STS" / "STS13-en-test" / "STS.input.headlines.txt"

    def translate(rows: list[str]) -> list[str]:
        pairs = [row.split("\t") for row in rows]
        for number, pair in enumerate(pairs):
            pair[side] = DUTCH[number % 2]
        return ["\t".join(pair) for pair in pairs]

    rewrite(path, translate)
    words = ("first", "second")[side]
    with pytest.raises(ValueError, match=rf"is not in English: of the words of its {words} sentences .*%"):
        load_sts_year(folder, "STS13")


def test_a_year_beside_the_folder_is_not_taken_but_sick_beside_sts_is(folder: Path) -> None:
    (folder / "STS" / "mine").mkdir()
    with pytest.raises(FileNotFoundError, match="mine has no STS12"):
        load_sts_year(folder / "STS" / "mine", "STS12")
    assert len(load_sick(folder / "STS", "dev")) == 500


def test_a_missing_task_is_named(folder: Path) -> None:
    for path in (folder / "STS" / "STS15-en-test").iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError, match="STS15"):
        load_sts(folder)
    assert list(load_sts(folder, ["STS14", "SICK-R"])) == ["STS14", "SICK-R"]


def test_windows_line_ends_and_marks_change_nothing(folder: Path) -> None:
    before = load_sick(folder)
    path = folder / "SICK" / "SICK_test_annotated.txt"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    after = load_sick(folder)
    assert before.first == after.first and np.array_equal(before.scores, after.scores)


SENTENCES = [
    '"It was close, he said.',
    "yes, and no",
    'a "b" c',
    '"Stop."',
    "two\nlines",
    '"Yes, she said.',
    "and\ttab",
]


@pytest.mark.parametrize("ending, delimiter", [("csv", ","), ("tsv", "\t")])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("kept", [7, 4])  # the last of which no cell of a file of tabs could hold as it is
def test_a_table_of_ones_own(tmp_path: Path, ending: str, delimiter: str, quoting: Any, kept: int) -> None:
    path = tmp_path / f"mine.{ending}"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=quoting)
        writer.writerow(["score", "sentence1", "sentence2"])
        writer.writerows([number, text, "other"] for number, text in enumerate(SENTENCES[:kept]))
    pairs = load_sts_benchmark(path, "dev")
    assert pairs.first == [" ".join(text.split()) for text in SENTENCES[:kept]]
    assert pairs.scores.tolist() == list(range(kept))


def test_quotation_marks_belong_to_the_text_of_a_file_of_tabs(tmp_path: Path) -> None:
    path = tmp_path / "glue.tsv"
    rows = ["index\tsentence1\tsentence2\tscore"]
    rows += [f"{number}\t{text}\tother\t{number}" for number, text in enumerate(SENTENCES) if text.isprintable()]
    path.write_text("\n".join(rows) + "\n")
    pairs = load_sts_benchmark(path, "dev")
    assert pairs.first == [text for text in SENTENCES if text.isprintable()]


def test_a_table_whose_quotation_marks_do_not_pair_up_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    for cell in ('"It was close', '"It was" close'):
        path.write_text(f"sentence1,sentence2,score\n{cell},two,1\nthree,four,2\n")
        with pytest.raises(ValueError, match="the quotation marks do not pair up"):
            load_sts_benchmark(path, "dev")


@pytest.mark.parametrize("score", ["inf", "-1e999", "NaN", ""])
def test_a_score_of_ones_own_that_is_no_finite_number_is_refused(tmp_path: Path, score: str) -> None:
    """A correlation with it would be NaN."""
    path = tmp_path / "mine.csv"
    path.write_text(f"sentence1,sentence2,score\none,two,1\nthree,four,{score}\n")
    with pytest.raises(ValueError, match=rf"row 2: the score is '{score}', not a finite number"):
        load_sts_benchmark(path, "dev")


def test_bad_names_get_the_nearest(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'STS12'"):
        load_sts(folder, ["STS-12"])
    with pytest.raises(ValueError, match="train, dev, test"):
        load_sts_benchmark(folder, "validation")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_sts_benchmark(tmp_path / "nowhere", "dev")
    (tmp_path / "bad.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(ValueError, match="needs the columns sentence1, sentence2, score"):
        load_sts_benchmark(tmp_path / "bad.csv", "dev")
