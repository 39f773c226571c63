"""What a file or a setting asks for is refused before it is allocated, unpacked or read."""

from __future__ import annotations

import io
import itertools

import pytest

from hypersphere import limits


def test_a_size_above_the_memory_is_refused_in_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory", lambda: 8 * 10**9)
    limits.need_memory(8 * 10**9, "z.npz")
    with pytest.raises(ValueError, match=r"^z\.npz would take 8\.5 GB, more than this machine's memory of 8\.0 GB$"):
        limits.need_memory(8_500_000_000, "z.npz")
    with pytest.raises(ValueError, match="would take 12,345 GB"):
        limits.need_memory(12_345 * 10**9, "z.npz")
    monkeypatch.setattr(limits, "memory", lambda: None)  # a system that does not report its memory
    limits.need_memory(10**30, "z.npz")


def test_this_machine_has_some_memory() -> None:
    there = limits.memory()
    assert there is None or 10**8 < there < 10**15


def test_lines_are_whole_up_to_the_longest_and_not_one_character_more() -> None:
    text = io.StringIO("abcd\n\nabc")
    assert list(limits.bounded_lines(text, "a.txt", longest=5)) == ["abcd\n", "\n", "abc"]
    text.seek(0)
    lines = limits.bounded_lines(io.StringIO("a\n" + "b" * 6), "a.txt", longest=5)
    assert next(lines) == "a\n"
    with pytest.raises(ValueError, match=r"^line 2 of a\.txt is longer than 5 characters: it is no text of lines$"):
        next(lines)


def test_a_stream_gives_no_byte_beyond_its_bound() -> None:
    stream = limits.Bounded(io.BytesIO(b"abcdef"), 4, "a.gz")
    assert stream.read(3) == b"abc" and stream.tell() == 3
    for size in (2, -1):
        with pytest.raises(ValueError, match=r"^a\.gz holds more than 4 bytes once unpacked, or asks for more$"):
            stream.read(size)
    assert stream.read(1) == b"d"
    with pytest.raises(ValueError, match="asks for more"):
        stream.seek(5)
    assert stream.seek(1) == 1 and stream.read(2) == b"bc"


def test_items_are_counted_while_they_come() -> None:
    assert list(limits.counted("abc", 3, "too many")) == ["a", "b", "c"]
    endless = limits.counted(itertools.count(), 3, "more than 3 files")
    assert list(itertools.islice(endless, 3)) == [0, 1, 2]
    with pytest.raises(ValueError, match=r"^more than 3 files$"):
        next(endless)
