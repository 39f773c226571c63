"""The seven sets of semantic textual similarity, in SentEval's folder layout, each file checked.

STS 2012 to 2016 (Agirre et al.) come in parts, a file of tab-separated pairs and a file of gold scores each; the STS
benchmark (Cer et al. 2017) and SICK (Marelli et al. 2014) are one file per split. Similarity is 0 to 5, in SICK 1 to 5.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.data.integrity import check_count, check_english_pairs, check_range, known_name, read_lines
from hypersphere.documents import locate

TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")

# Scored pairs of every part, as in the tasks' reports (Agirre et al. 2012-2016) and counted in SentEval's files. Left
# out on purpose: STS12's ALL (its five parts once more) and STS13's SMT (gold without input: its licence forbids
# sharing the input). In 2015 and 2016 not all published pairs were scored: pairs with an empty gold line are dropped.
PARTS: dict[str, dict[str, int]] = {
    "STS12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750, "surprise.SMTnews": 399},
    "STS13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "STS14": {"deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "OnWN": 750, "tweet-news": 750},
    "STS15": {"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750, "images": 750},
    "STS16": {
        "answer-answer": 254,
        "headlines": 249,
        "plagiarism": 230,
        "postediting": 244,
        "question-question": 209,
    },
}
BENCHMARK_ROWS = {"train": 5749, "dev": 1500, "test": 1379}  # Cer et al. 2017, Table 2
SICK_FILES = {  # Marelli et al. 2014: 4500, 500 and 4927 pairs under a line of column names
    "train": ("SICK_train.txt", 4500),
    "dev": ("SICK_trial.txt", 500),
    "test": ("SICK_test_annotated.txt", 4927),
}


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs of sentences and human scores of their similarity."""

    name: str
    first: list[str]
    second: list[str]
    scores: np.ndarray  # (N,) float64

    def __len__(self) -> int:
        return len(self.first)

    def spaced(self, limit: int) -> ScoredPairs:
        """At most ``limit`` pairs, evenly spaced over the set."""
        rows = spaced_rows(len(self), limit)
        return ScoredPairs(
            self.name, [self.first[row] for row in rows], [self.second[row] for row in rows], self.scores[rows]
        )


def spaced_rows(count: int, limit: int) -> list[int]:
    """At most ``limit`` of ``count`` row numbers, evenly spaced.

    >>> spaced_rows(10, 4), spaced_rows(3, 4)
    ([0, 2, 5, 7], [0, 1, 2])
    """
    return [count * row // limit for row in range(limit)] if count > limit else list(range(count))


def load_sts(folder: str | Path, tasks: Sequence[str] = TASKS) -> dict[str, list[ScoredPairs]]:
    """The named tasks, each as its parts (the benchmark and SICK: their test split), every file checked.

    ``folder`` is SentEval's data folder, its ``downstream``, or the ``STS`` folder in it.
    """
    parts = {}
    for task in tasks:
        known_name(task, TASKS, "STS task")
        if task == "STS-B":
            parts[task] = [load_sts_benchmark(folder, "test")]
        elif task == "SICK-R":
            parts[task] = [load_sick(folder, "test")]
        else:
            parts[task] = load_sts_year(folder, task)
    return parts


def load_sts_year(folder: str | Path, task: str) -> list[ScoredPairs]:
    """The parts of STS12 … STS16, without pairs that have no gold score."""
    known_name(task, PARTS, "year of STS")
    home = _find(locate(folder), task, f"{task}-en-test", f"STS.input.{next(iter(PARTS[task]))}.txt")
    return [_part(home, task, part, known) for part, known in PARTS[task].items()]


def load_sts_benchmark(path: str | Path, split: str = "test") -> ScoredPairs:
    """STS benchmark, split ``train``, ``dev`` or ``test``.

    ``path`` is SentEval's folder (checked for row count, scale and language); or a file of your own, ``.csv`` or
    ``.tsv`` with columns ``sentence1``, ``sentence2``, ``score`` on any scale; or, where the hub can be reached, the
    name of a data set with these columns, such as ``sentence-transformers/stsb``.
    """
    known_name(split, BENCHMARK_ROWS, "split of the STS benchmark")
    place = locate(path)
    if place.is_dir():
        home = _find(place, "STS-B", "STSBenchmark", f"sts-{split}.csv")
        return _benchmark(home / f"sts-{split}.csv", split, BENCHMARK_ROWS[split])
    if place.is_file():
        return _table(place)
    if isinstance(path, str) and path.count("/") == 1 and place.suffix not in (".csv", ".tsv", ".txt"):
        return _from_hub(path, split)
    raise FileNotFoundError(f"There is no folder or file {path} to read the STS benchmark from.")


def load_sick(folder: str | Path, split: str = "test") -> ScoredPairs:
    """SICK's relatedness scores, split ``train``, ``dev`` or ``test``."""
    known_name(split, SICK_FILES, "split of SICK")
    name, known = SICK_FILES[split]
    path = _find(locate(folder), "SICK-R", "SICK", name) / name
    rows = [line.split("\t") for line in read_lines(path)[1:]]  # a line of column names first
    check_count(path, len(rows), known)
    return _pairs(path, "SICK-R", rows, columns=(1, 2, 3), scale=(1, 5))


def _find(folder: Path, task: str, name: str, file: str) -> Path:
    """The path of ``task``, given SentEval's data folder, a folder in it, or the task's own folder."""
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder}.")
    bases = [folder, folder / "STS", folder / "downstream", folder / "downstream" / "STS"]
    if name == "SICK":  # SICK lies beside STS, so load_sts also takes the STS folder
        bases.append(folder.parent)
    places = [folder, *(base / name for base in bases)]
    for place in places:
        if (place / file).is_file():
            return place
    if there := next((place for place in places[1:] if place.is_dir()), None):
        raise FileNotFoundError(f"{there} has no {file}, which {task} needs.")
    raise FileNotFoundError(f"{folder} has no {task}: neither {name}/{file} nor STS/{name}/{file} is there.")


def _part(home: Path, task: str, part: str, known: int) -> ScoredPairs:
    path, gold = home / f"STS.input.{part}.txt", home / f"STS.gs.{part}.txt"
    inputs, golds = read_lines(path), read_lines(gold)
    check_count(path, len(inputs), len(golds), unit=f"pairs beside {gold.name}'s lines,")
    rows = [[*line.split("\t")[:2], score] for line, score in zip(inputs, golds, strict=True) if score.strip()]
    check_count(gold, len(rows), known, unit="scored pairs")
    return _pairs(path, f"{task} {part}", rows, columns=(0, 1, 2), scale=(0, 5))


def _benchmark(path: Path, split: str, known: int) -> ScoredPairs:
    rows = [line.split("\t") for line in read_lines(path)]  # genre, file, year, id, score, two sentences, their sources
    check_count(path, len(rows), known)
    return _pairs(path, "STS-B", rows, columns=(5, 6, 4), scale=(0, 5))


def _pairs(
    path: Path, name: str, rows: list[list[str]], columns: tuple[int, int, int], scale: tuple[float, float]
) -> ScoredPairs:
    pairs = _columns(path, name, rows, columns)
    check_range(path, pairs.scores, *scale)
    check_english_pairs(path, pairs.first, pairs.second)
    return pairs


def _columns(path: Path, name: str, rows: list[list[str]], columns: tuple[int, int, int]) -> ScoredPairs:
    """Two columns of sentences, with spaces normalised as by SentEval's splitting and joining, and one of scores."""
    first, second, scores = [], [], []
    for number, row in enumerate(rows, start=1):
        if len(row) <= max(columns):
            raise ValueError(f"{path}, row {number}: {len(row)} columns where {max(columns) + 1} are needed.")
        scores.append(_score(row[columns[2]]))
        if not math.isfinite(scores[-1]):
            raise ValueError(f"{path}, row {number}: the score is {row[columns[2]]!r}, not a finite number.")
        first.append(" ".join(row[columns[0]].split()))
        second.append(" ".join(row[columns[1]].split()))
        if not first[-1] or not second[-1]:
            raise ValueError(f"{path}, row {number}: a sentence is empty.")
    return ScoredPairs(name, first, second, np.asarray(scores, dtype=np.float64))


def _score(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _table(path: Path) -> ScoredPairs:
    """A user's table: columns named in the first line, or a file of SentEval's benchmark."""
    lines = read_lines(path)
    names = ("sentence1", "sentence2", "score")
    delimiter = "\t" if "\t" in (lines or [""])[0] else ","
    header = next(csv.reader(lines[:1], delimiter=delimiter), [])
    if set(names) <= set(header):
        rows = list(_rows(path, lines, delimiter))[1:]
        pairs = _columns(path, path.stem, rows, tuple(header.index(name) for name in names))  # type: ignore[arg-type]
    elif len(header) >= 7 and path.stem.startswith("sts-"):
        split = path.stem.removeprefix("sts-")
        return _benchmark(path, split, BENCHMARK_ROWS.get(split, len(lines)))
    else:
        raise ValueError(f"{path} needs the columns {', '.join(names)} in its first line; it has {', '.join(header)}.")
    if not len(pairs):
        raise ValueError(f"{path} has no pair.")
    return pairs


def _rows(path: Path, lines: list[str], delimiter: str) -> Iterator[list[str]]:
    """Cells of a table. If a split at tabs gives every line all its columns, as in GLUE's files, quotation marks belong
    to the text. They are CSV quoting only where nothing else explains them: around column names, or in "a ""b"" c"."""
    if delimiter == "\t" and '"' not in lines[0] and len({line.count("\t") for line in lines if line}) == 1:
        for line in filter(None, lines):
            yield [_unquoted(cell) for cell in line.split("\t")]
        return
    try:
        yield from filter(None, csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise ValueError(f"{path}: the quotation marks do not pair up ({error}).") from None


def _unquoted(cell: str) -> str:
    inner = cell[1:-1]
    written = len(cell) > 1 and cell[0] == cell[-1] == '"' and '""' in inner and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if written else cell


def _from_hub(name: str, split: str) -> ScoredPairs:
    try:
        import datasets  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise ImportError("A data set of the hub needs datasets: pip install 'hypersphere-lab[train]'.") from None
    try:
        loaded: Any = datasets.load_dataset(name)
    except Exception as error:  # no network, no such name: the library raises a dozen kinds
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileNotFoundError(f"{name} is neither a file nor a data set that can be reached ({words}).") from error
    rows = loaded["validation" if split == "dev" and "validation" in loaded else split]
    lists = (rows["sentence1"], rows["sentence2"], rows["score"])
    return _columns(Path(name), name, [list(map(str, row)) for row in zip(*lists, strict=True)], (0, 1, 2))
