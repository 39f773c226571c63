"""Checks that a file is the complete, English set of its name. Truncated and translated copies circulate."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from hypersphere.names import nearest

_WORD = re.compile(r"[^\W\d_]+")
# Words that carry grammar, not meaning: about a fifth of running English and a tenth of its headlines. Words that are
# frequent in other languages too are left out ("a", "in", "on", "at", "as", "i", "was").
FUNCTION_WORDS = frozenset(
    _WORD.findall(
        "the and of to is are with for that this from by after over into it its he she his her they their who which "
        "what how have been were will would not but about says said you there when than"
    )
)
# The same for Dutch, German, Scandinavian, Romance and Slavic languages, where "is", "of", "for", "over" occur as well.
# None is an English word, or an abbreviation in English headlines.
FOREIGN_WORDS = frozenset(
    _WORD.findall(
        "de het een van niet zijn voor der das und ist nicht ein eine den zu mit auf le la les des et une du que est "
        "pas pour dans el los las por con del il di che della não uma os em og det på som til af ikke och att är inte "
        "na się nie że je și în"
    )
)
LEAST_ENGLISH = 0.05  # the lowest share in SentEval's files is 0.085 (the second sentences of headlines)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file without their ends: UTF-8 (a byte order mark is dropped), else latin-1.

    Only the file's line ends separate lines; the other separators of ``str.splitlines`` would split rows.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def check_count(path: Path, count: int, known: int, unit: str = "rows") -> None:
    """Refuses a file whose number of rows is not that of the set."""
    if count != known:
        how = "truncated or half downloaded" if count < known else "not the original"
        raise ValueError(f"{path} has {count} {unit} where the set has {known}: the copy is {how}.")


def check_range(path: Path, scores: Iterable[float], low: float, high: float) -> None:
    """Refuses a file with a label outside the scale of its set."""
    for row, score in enumerate(scores, start=1):
        if not low <= score <= high:
            raise ValueError(f"{path} has the label {score:g} in row {row}, outside the scale {low:g} to {high:g}.")


def function_words(sentences: Iterable[str]) -> tuple[float, float]:
    """Shares of the words that are function words of English, and of other languages; 0 if there is no word."""
    words = [word for sentence in sentences for word in _WORD.findall(sentence.lower())]
    counted = (sum(word in known for word in words) for known in (FUNCTION_WORDS, FOREIGN_WORDS))
    english, foreign = (count / max(1, len(words)) for count in counted)
    return english, foreign


def check_english(path: Path, sentences: Iterable[str], of: str = "its words") -> None:
    """Refuses a translated copy: it has the right row counts, but not the function words of English.

    of: the source of the words.
    """
    english, foreign = function_words(sentences)
    if english < max(LEAST_ENGLISH, foreign):
        raise ValueError(
            f"{path} is not in English: of {of} {english:.1%} are English function words (at least "
            f"{LEAST_ENGLISH:.0%} in every file of the original) and {foreign:.1%} are those of other languages; the "
            "copy is translated or damaged."
        )


def check_english_pairs(path: Path, first: Iterable[str], second: Iterable[str]) -> None:
    """Refuses a file of pairs if one or both sides are translated."""
    check_english(path, first, "the words of its first sentences")
    check_english(path, second, "the words of its second sentences")


def known_name(name: str, allowed: Iterable[str], what: str) -> None:
    """Refuses a name that is not among ``allowed``, and suggests the nearest that is."""
    names = list(allowed)
    if name not in names:
        near = nearest(name, names, alike=0.3)
        hint = f"did you mean {near!r}? " if near else ""
        raise ValueError(f"There is no {what} {name!r}; {hint}there are {', '.join(names)}.")
