"""The checks of a file, on files and words counted by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hypersphere.data import integrity

FILE = Path("set.txt")


def test_only_line_ends_separate_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes("\ufeffone\u2028still one\r\ntwo\x0bstill two\x85\n\nfour\n".encode())
    assert integrity.read_lines(path) == ["one\u2028still one", "two\x0bstill two\x85", "", "four"]
    path.write_bytes(b"caf\xe9\nlast, without an end")  # no UTF-8, so latin-1
    assert integrity.read_lines(path) == ["café", "last, without an end"]
    path.write_bytes(b"")
    assert integrity.read_lines(path) == []
    with pytest.raises(FileNotFoundError, match="There is no file"):
        integrity.read_lines(tmp_path / "nowhere.txt")


@pytest.mark.parametrize(("count", "reason"), [(9, "truncated or half downloaded"), (11, "not the original")])
def test_a_wrong_count_is_refused_with_both_numbers(count: int, reason: str) -> None:
    integrity.check_count(FILE, 10, 10)
    with pytest.raises(ValueError, match=rf"^set\.txt has {count} lines where the set has 10: the copy is {reason}\.$"):
        integrity.check_count(FILE, count, 10, "lines")


@pytest.mark.parametrize("score", [-0.1, 5.1, math.nan, math.inf])
def test_a_label_off_the_scale_is_refused_with_its_row(score: float) -> None:
    integrity.check_range(FILE, [0.0, 5.0], 0, 5)
    with pytest.raises(ValueError, match=r"^set\.txt has the label \S+ in row 3, outside the scale 0 to 5\.$"):
        integrity.check_range(FILE, [0.0, 5.0, score], 0, 5)


def test_function_words_are_counted_by_language() -> None:
    assert integrity.function_words(["The cat and THE dog."]) == (3 / 5, 0)
    assert integrity.function_words(["De hond is niet", "van het dorp"]) == (1 / 7, 4 / 7)  # "is" is English too
    assert integrity.function_words(["12 + 3 = 15", ""]) == (0, 0)


def test_words_are_english_unless_they_are_rarer_than_anothers_or_than_in_any_original() -> None:
    headline = ["Storm hits coast", "Minister to resign after vote", "Prices rise again"]  # to, after: 2 of 11
    integrity.check_english(FILE, headline)
    with pytest.raises(ValueError, match=r"of its words 0\.0% are English function words \(at least 5%"):
        integrity.check_english(FILE, headline[::2])
    with pytest.raises(ValueError, match=r"^set\.txt is not in English: .* 14\.3% .* and 57\.1% are those of other"):
        integrity.check_english(FILE, ["de hond is niet van het dorp"])
    with pytest.raises(ValueError, match="of the words of its second sentences"):
        integrity.check_english_pairs(FILE, headline, ["Storm trifft Küste"])


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    integrity.known_name("dev", ("train", "dev"), "split")
    with pytest.raises(ValueError, match=r"^There is no split 'trian'; did you mean 'train'\? there are train, dev\.$"):
        integrity.known_name("trian", ("train", "dev"), "split")
    with pytest.raises(ValueError, match=r"^There is no split 'xyz'; there are train, dev\.$"):
        integrity.known_name("xyz", ("train", "dev"), "split")
