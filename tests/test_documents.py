"""JSON and YAML of others: what they hold, and one sentence for what is wrong with them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hypersphere import documents
from hypersphere.data.text import read_corpus
from hypersphere.documents import as_record, expand, json_safe, locate, parse_json, parse_value, parse_yaml


def test_data_is_looked_for_in_the_folder_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_the_home_of_nobody_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expand("~/runs") == tmp_path / "runs"
    with pytest.raises(
        FileNotFoundError, match=r"^there is no home folder ~nobody-at-all \(\./~nobody-at-all is a name\)$"
    ):
        expand("~nobody-at-all/runs")


# ---- JSON ----


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"\xff", "a.json is not text in UTF-8"),
        ('{"a": ', "a.json is not JSON: Expecting value: line 1 column 7 (char 6)"),
        ('[{"a": 1, "b": 2, "a": 3}]', "a.json is not accepted: the key 'a' is there twice"),
        ("[" * 65 + "]" * 65, "a.json is not accepted: it is nested more than 64 levels deep"),
        ("3", "a.json should hold an object, not a number"),
    ],
)
def test_what_is_wrong_with_a_json_text_is_said_in_one_sentence(text: str | bytes, sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_json(text, "a.json", dict)
    assert str(refusal.value) == sentence


def test_brackets_within_texts_are_not_levels() -> None:
    deep = "[" * 64 + '"' + "[" * 100 + '\\"["' + "]" * 64
    value = parse_json(deep, "a.json")
    for _ in range(64):
        (value,) = value
    assert value == "[" * 100 + '"['


def test_a_file_is_read_without_its_mark_and_no_further_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": [1]}')
    assert documents.read_json(path, dict) == {"a": [1]}
    monkeypatch.setattr(documents, "LARGEST", 10)
    with pytest.raises(ValueError, match=r"a\.json is larger than 10 bytes"):
        documents.read_json(path)
    with pytest.raises(ValueError, match="is not an ordinary file"):
        documents.read_document(Path("/dev/null"), 10)


def test_numbers_that_json_lacks_become_null() -> None:
    value = {"a": (math.nan, math.inf, 1.23456), "b": [True, "inf", 12345, None]}
    assert json_safe(value) == {"a": [None, None, 1.23456], "b": [True, "inf", 12345, None]}
    assert json_safe(value, digits=3, infinity=9e9)["a"] == [None, 9e9, 1.23]
    assert json_safe(-math.inf, infinity=9e9) == -9e9


# ---- YAML ----


def test_yaml_has_words_numbers_and_truth_and_no_dates() -> None:
    text = "{lr: 3e-5, size: 1_000, day: 2024-05-01, best: yes, none: ~, name: 1.2.3}"
    assert parse_yaml(text, "recipe") == {
        "lr": 3e-5, "size": 1000, "day": "2024-05-01", "best": True, "none": None, "name": "1.2.3"
    }  # fmt: skip


def test_what_is_read_twice_is_not_shared() -> None:
    first = parse_yaml("a: [1]", "recipe")
    first["a"].append(2)
    assert parse_yaml("a: [1]", "recipe") == {"a": [1]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [1", r"^r is not YAML \(line 1\): while parsing a flow sequence: "),
        ("a: 1\nb: {c: 1, c: 2}", r"^r is not accepted \(line 2\): the key 'c' is there twice$"),
        ("a: !!python/name:os.system x", r"^r is not accepted \(line 1\): it has the tag '.*name:os\.system', and "),
        ("1: a", r"^r is not accepted \(line 1\): a key is not a word$"),
        ("&a [*a]", r"^r is not accepted \(line 1\): it holds itself$"),
        ("[" * 65 + "]" * 65, r"nested more than 64 levels deep$"),
        ("[&a [1, 1, 1, 1, 1, 1, 1, 1, 1], &b [*a, *a, *a, *a, *a, *a, *a, *a, *a], "
         "&c [*b, *b, *b, *b, *b, *b, *b, *b, *b], &d [*c, *c, *c, *c, *c, *c, *c, *c, *c], [*d, *d, *d]]",
         r"it has more than 20,000 values, those of its aliases included$"),
        (f"a: {'9' * 101}", r"a number has 101 digits$"),
        ("- 1", r"^r should hold an object, not a list$"),
        ("a\0b", r"^r is not YAML: "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_yaml_text_is_said_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refusal:
        parse_yaml(text, "r", dict)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("word", "value"),
    [("3e-5", 3e-5), ("my run #1", "my run #1"), ("#1", "#1"), ("'#1'", "#1"), ("[1, two]", [1, "two"]), ("", None),
     ("true", True), ("null", None), ("2024-05-01", "2024-05-01"), ("3 # of them", "3 # of them")],
)  # fmt: skip
def test_a_word_of_a_command_is_a_value_or_stays_as_it_was_typed(word: str, value: Any) -> None:
    assert parse_value(word, "steps") == value


@pytest.mark.parametrize(("word", "sentence"), [("&a 3", "it has an anchor"), ("[1] 2", "steps is not YAML"),
                                                ("[1] # 2", "more text before or after its value")])  # fmt: skip
def test_a_word_that_is_more_than_a_value_is_refused(word: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_value(word, "steps")


# ---- records ----


@dataclass
class Line:
    step: int
    loss: float | None
    names: tuple[str, ...] = ()


def test_a_record_has_the_fields_of_its_class_each_of_its_type() -> None:
    assert as_record(Line, {"step": 3, "loss": 1, "names": ["a"]}, "log") == Line(3, 1, ("a",))
    assert as_record(Line, {"step": 3, "loss": None}, "log") == Line(3, None)
    for values, sentence in (
        ({"step": True, "loss": 1.0}, "^log has True for step$"),
        ({"step": 3, "loss": "low"}, "^log has 'low' for loss$"),
        ({"step": 3, "loss": 1.0, "names": ["a", 2]}, r"^log has \['a', 2\] for names$"),
        ({"step": 3, "loss": 1.0, "more": 1}, "^log is not Line as it should be$"),
        ({"step": 3}, "^log is not Line as it should be: .*'loss'$"),
        ([3, 1.0], "^log is not Line as it should be$"),
    ):
        with pytest.raises(ValueError, match=sentence):
            as_record(Line, values, "log")
