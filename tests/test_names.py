"""The nearest known name: by letters, whatever their case, and none for what is like nothing."""

from __future__ import annotations

from hypersphere.names import LONGEST, did_you_mean, nearest, nearest_names


def test_the_nearest_name_keeps_its_own_spelling() -> None:
    assert nearest("sts-12", ["STS12", "SICK-R"]) == "STS12"
    assert nearest("INFONCE", ["infonce", "ntxent"]) == "infonce"


def test_how_alike_names_must_be_is_a_share_of_their_letters() -> None:
    """Likeness is twice the number of letters in common over all: abcd and abxy have 2 · 2 / 8 = 0.5."""
    assert nearest("abcd", ["abxy"]) is None and nearest("abcd", ["abxy"], alike=0.51) is None
    assert nearest("abcd", ["abxy"], alike=0.5) == "abxy"


def test_nearer_names_come_first_and_no_more_than_asked_for() -> None:
    known = ["margin", "marge", "mar", "temperature"]
    assert nearest_names("margn", known) == ["margin", "marge", "mar"]
    assert nearest_names("margn", known, most=1) == ["margin"]
    assert nearest_names("margin", []) == []


def test_what_is_no_text_or_far_too_long_has_no_near_name() -> None:
    assert did_you_mean(["met"], ["['met']"]) == "; did you mean \"['met']\"?"
    assert did_you_mean(None, ["met", "mat"]) == ""
    long = "m" * (LONGEST + 1)
    assert did_you_mean(long, [long]) == ""
