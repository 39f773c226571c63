"""The seven sets on which SentEval (Conneau & Kiela 2018) evaluates a classifier over frozen sentence embeddings.

Each file is checked for row count, labels and language. Sentences are in the order in which SentEval feeds them to its
folds (by number of words, then by label, else as in the file), since a sentence's index decides its fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hypersphere.data.integrity import check_count, check_english, check_english_pairs, known_name, read_lines
from hypersphere.data.sts import spaced_rows
from hypersphere.documents import locate

TASKS = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC")

# Rows of every file (Conneau & Kiela 2018, Table 1; counted in SentEval's files). The first file holds label 1.
TWO_FILES: dict[str, tuple[tuple[str, int], tuple[str, int]]] = {
    "MR": (("rt-polarity.pos", 5331), ("rt-polarity.neg", 5331)),
    "CR": (("custrev.pos", 2407), ("custrev.neg", 1368)),
    "SUBJ": (("subj.objective", 5000), ("subj.subjective", 5000)),
    "MPQA": (("mpqa.pos", 3312), ("mpqa.neg", 7294)),
}
SST2_ROWS = {"dev": 872, "test": 1821, "train": 67349}
TREC_FILES = {"train": ("train_5500.label", 5452), "test": ("TREC_10.label", 500)}
TREC_KINDS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
MRPC_FILES = {"train": ("msr_paraphrase_train.txt", 4076), "test": ("msr_paraphrase_test.txt", 1725)}
EMPTY = "."  # stands for the few empty lines of CR and MPQA, as in SentEval's example encoders


@dataclass(frozen=True)
class LabelledTexts:
    """Sentences, or pairs of them, and a class for each."""

    texts: list[str]
    labels: np.ndarray  # (N,) int64
    second: list[str] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def spaced(self, limit: int) -> LabelledTexts:
        """At most ``limit`` rows, evenly spaced: the shares of the classes stay nearly the same."""
        rows = spaced_rows(len(self), limit)
        second = None if self.second is None else [self.second[row] for row in rows]
        return LabelledTexts([self.texts[row] for row in rows], self.labels[rows], second)


@dataclass(frozen=True)
class TransferSet:
    """One task. Without a test split the task is cross-validated; without a dev split the regularisation is."""

    name: str
    classes: int
    train: LabelledTexts
    dev: LabelledTexts | None = None
    test: LabelledTexts | None = None

    def splits(self) -> list[LabelledTexts]:
        return [split for split in (self.train, self.dev, self.test) if split is not None]

    def spaced(self, limit: int) -> TransferSet:
        """At most ``limit`` rows of every split."""
        dev, test = (None if split is None else split.spaced(limit) for split in (self.dev, self.test))
        return TransferSet(self.name, self.classes, self.train.spaced(limit), dev, test)


def load_transfer(folder: str | Path, tasks: Sequence[str] = TASKS) -> dict[str, TransferSet]:
    """The named tasks, from SentEval's data folder or its ``downstream``."""
    sets = {}
    for task in tasks:
        known_name(task, TASKS, "transfer task")
        load = {"SST2": _sst2, "TREC": _trec, "MRPC": _mrpc}.get(task)
        sets[task] = load(locate(folder)) if load else _two_files(locate(folder), task)
    return sets


def _two_files(folder: Path, task: str) -> TransferSet:
    texts: list[str] = []
    labels: list[int] = []
    for label, (name, known) in zip((1, 0), TWO_FILES[task], strict=True):
        path = _find(folder, task, task) / name
        lines = [_tidy(line) for line in read_lines(path)]
        check_count(path, len(lines), known)
        check_english(path, lines)
        texts += lines
        labels += [label] * len(lines)
    return TransferSet(task, 2, _ordered(texts, labels))


def _sst2(folder: Path) -> TransferSet:
    home = _find(folder, "SST2", "SST", "binary")
    splits = {}
    for split, known in SST2_ROWS.items():
        path = home / f"sentiment-{split}"
        rows = [line.split("\t") for line in read_lines(path)]
        check_count(path, len(rows), known)
        _columns(path, rows, 2)
        labels = [_label(path, number, row[1], ("0", "1")) for number, row in enumerate(rows, start=1)]
        splits[split] = _ordered([_tidy(row[0]) for row in rows], labels)
        check_english(path, splits[split].texts)
    return TransferSet("SST2", 2, **splits)


def _trec(folder: Path) -> TransferSet:
    """``NUM:dist How far is it from Denver to Aspen ?``: the class, its finer kind (not used), the question."""
    home = _find(folder, "TREC", "TREC")
    splits = {}
    for split, (name, known) in TREC_FILES.items():
        path = home / name
        rows = [line.partition(" ") for line in read_lines(path)]
        check_count(path, len(rows), known)
        labels = [
            _label(path, number, kind.partition(":")[0], TREC_KINDS)
            for number, (kind, _, _) in enumerate(rows, start=1)
        ]
        splits[split] = _ordered([_tidy(question) for _, _, question in rows], labels)
        check_english(path, splits[split].texts)
    return TransferSet("TREC", len(TREC_KINDS), **splits)


def _mrpc(folder: Path) -> TransferSet:
    home = _find(folder, "MRPC", "MRPC")
    splits = {}
    for split, (name, known) in MRPC_FILES.items():
        path = home / name
        rows = [line.split("\t") for line in read_lines(path)[1:]]  # a line of column names first
        check_count(path, len(rows), known)
        _columns(path, rows, 5)
        labels = [_label(path, number, row[0], ("0", "1")) for number, row in enumerate(rows, start=2)]
        first, second = ([_tidy(row[place]) for row in rows] for place in (3, 4))
        splits[split] = _ordered(first, labels, second)
        check_english_pairs(path, first, second)
    return TransferSet("MRPC", 2, **splits)


def _find(folder: Path, task: str, *names: str) -> Path:
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder}.")
    for base in (folder, folder / "downstream"):
        if (base.joinpath(*names)).is_dir():
            return base.joinpath(*names)
    raise FileNotFoundError(f"{folder} has no {task}: the folder {'/'.join(names)} is not there.")


def _columns(path: Path, rows: list[list[str]], needed: int) -> None:
    for number, row in enumerate(rows, start=1):
        if len(row) < needed:
            raise ValueError(f"{path}, row {number}: {len(row)} columns where {needed} are needed.")


def _label(path: Path, line: int, given: str, allowed: Sequence[str]) -> int:
    if given.strip() not in allowed:
        raise ValueError(f"{path}, line {line}: the label is {given!r}, not one of {', '.join(allowed)}.")
    return allowed.index(given.strip())


def _tidy(line: str) -> str:
    return " ".join(line.split())


def _ordered(texts: list[str], labels: list[int], second: list[str] | None = None) -> LabelledTexts:
    def words(sentence: str) -> int:
        return len(sentence.split())

    key: Callable[[int], tuple[int, ...]]
    if second is None:
        key = lambda row: (words(texts[row]), labels[row])  # noqa: E731
    else:
        key = lambda row: (words(texts[row]), words(second[row]), labels[row])  # noqa: E731
    order = sorted(range(len(texts)), key=key)
    return LabelledTexts(
        [texts[row] or EMPTY for row in order],
        np.asarray([labels[row] for row in order], dtype=np.int64),
        None if second is None else [second[row] or EMPTY for row in order],
    )
