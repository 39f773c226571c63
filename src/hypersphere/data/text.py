"""Text to train on: sentences, pairs, or triples with a hard negative, from a file, a folder or a dataset id."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from hypersphere.documents import locate, parse_json
from hypersphere.limits import bounded_lines, need_memory
from hypersphere.messages import first_line, quoted

VIEWS = {"dropout": 1, "pairs": 2, "triples": 3}  # how many texts an instance has
TEXT_BYTES = 60  # bytes of a text beside its characters
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}


@dataclass(frozen=True)
class Corpus:
    """Instances of one, two or three texts; ``columns[k][i]`` is text k of instance i."""

    columns: tuple[list[str], ...]
    name: str
    empty: int = 0  # lines left out because they had no text

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"row": row, "texts": [column[row] for column in self.columns]}

    def select(self, rows: list[int]) -> Corpus:
        """The instances at ``rows``, in that order."""
        return Corpus(tuple([column[row] for row in rows] for column in self.columns), self.name)


def read_corpus(source: str, views: str = "dropout", *, columns: list[str] | None = None, rows: int = 0) -> Corpus:
    """The corpus at ``source``: a text file (plain, .gz, .xz), or ``hf:`` and a dataset id or a saved dataset's folder.

    A line of a plain file is a sentence; of a .tsv file, or when ``views`` asks for pairs or triples, its texts are
    separated by tabs. A .csv file has a header, a .jsonl file an object per line: ``columns`` names the texts' columns
    (default: the first ones). ``rows`` keeps only that many instances.
    """
    wanted = VIEWS[views]
    if source.startswith("hf:"):
        instances, name = _dataset(source[3:], wanted, columns), source[3:]
    else:
        path = locate(source)
        if not path.is_file():
            raise FileNotFoundError(f"there is no text file {source} (a dataset id is written hf:owner/name)")
        instances, name = _lines(path, wanted, columns), path.name
    texts: tuple[list[str], ...] = tuple([] for _ in range(wanted))
    empty = size = 0
    for instance in instances:
        size += sum(map(len, instance)) + TEXT_BYTES * wanted
        if len(texts[0]) % 10_000 == 0:  # a small .gz may hold any number of lines
            need_memory(size, f"the text of {source}")
        if not all(text.strip() for text in instance):
            empty += 1
            continue
        for column, text in zip(texts, instance, strict=True):
            column.append(text.strip())
        if rows and len(texts[0]) == rows:
            break
    if len(texts[0]) < 2:
        many = "" if texts[0] else "s"
        raise ValueError(f"{source} holds {len(texts[0])} instance{many} with text; at least 2 are needed")
    return Corpus(texts, name, empty)


def has_pairs(source: str) -> bool:
    """Whether every line of a text file that is not empty has two texts or more, separated by tabs. A .csv or .jsonl
    file and a dataset have columns with names instead, any of which may hold the texts."""
    path = locate(source)
    if source.startswith("hf:") or not path.is_file() or {".csv", ".json", ".jsonl"} & set(path.suffixes):
        return False
    try:
        return all(len(cells) == 2 for cells in _lines(path, 2, None))  # stops at the first line with one text
    except ValueError:
        return False


def _lines(path: Path, wanted: int, columns: list[str] | None) -> Iterator[list[str]]:
    suffix = next((s for s in reversed(path.suffixes) if s not in _OPENERS), "")
    number = 0
    with _opened(path) as file:
        try:
            if suffix == ".csv":
                yield from _from_csv(path, file, wanted, columns)
            elif suffix in (".jsonl", ".json"):
                yield from _from_objects(path, file, wanted, columns)
            else:
                if columns:
                    raise ValueError(f"{path.name} has no names of columns to choose from: only .csv and .jsonl have")
                for number, line in enumerate(bounded_lines(file, path.name), 1):
                    cells = line.rstrip("\n").split("\t") if wanted > 1 or suffix == ".tsv" else [line]
                    if len(cells) < wanted and line.strip():
                        raise ValueError(
                            f"line {number} of {path.name} has {len(cells)} texts separated by tabs, not {wanted}"
                        )
                    yield cells[:wanted] if line.strip() else [""] * wanted
        except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, csv.Error) as error:
            raise ValueError(f"{path.name} is damaged or cut short after line {number}: {error}") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{path.name} is not UTF-8 text (near line {number + 1}): {error.reason}") from None


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    opener = _OPENERS.get(path.suffix, open)
    with opener(path, "rb") as raw:
        yield io.TextIOWrapper(raw, encoding="utf-8-sig", newline=None)


def _from_csv(path: Path, file: TextIO, wanted: int, columns: list[str] | None) -> Iterator[list[str]]:
    reader = csv.DictReader(bounded_lines(file, path.name))
    keys = _keys(path.name, list(reader.fieldnames or []), wanted, columns)
    for record in reader:
        yield [record[key] or "" for key in keys]


def _from_objects(path: Path, file: TextIO, wanted: int, columns: list[str] | None) -> Iterator[list[str]]:
    keys: list[str] = []
    for number, line in enumerate(bounded_lines(file, path.name), 1):
        if not line.strip():
            continue
        try:
            record = parse_json(line, f"line {number} of {path.name}", dict)
            keys = keys or _keys(path.name, list(record), wanted, columns)
            yield ["" if record[key] is None else _text(record[key], key) for key in keys]
        except (KeyError, TypeError) as error:
            raise ValueError(f"line {number} of {path.name} is not an object with {', '.join(keys)}: {error}") from None


def _text(value: Any, key: str) -> str:
    if isinstance(value, (dict, list)):
        raise TypeError(f"{quoted(key)} is {'an object' if isinstance(value, dict) else 'a list'}, not a text")
    return str(value)


def _keys(name: str, present: list[str], wanted: int, columns: list[str] | None) -> list[str]:
    keys = columns or present[:wanted]
    missing = [key for key in keys if key not in present]
    if missing or len(keys) != wanted:
        raise ValueError(
            f"{name} must give {wanted} columns of text; it has {', '.join(present) or 'none'}, asked for "
            f"{', '.join(keys) or 'none'}"
        )
    return keys


def _dataset(identifier: str, wanted: int, columns: list[str] | None) -> Iterator[list[str]]:
    import datasets

    name, _, split = identifier.partition("#")
    try:
        table = datasets.load_from_disk(name) if Path(name).is_dir() else datasets.load_dataset(name)
    except Exception as error:  # any error of the hub, the disk or a parser
        raise ValueError(f"the dataset {name} could not be loaded: {first_line(error)}") from None
    if isinstance(table, datasets.DatasetDict):
        chosen = split or "train"
        if chosen not in table:
            raise ValueError(f"{name} has no split {chosen!r} (it has {', '.join(table)}; choose with hf:{name}#split)")
        table = table[chosen]
    texts = [key for key, kind in table.features.items() if getattr(kind, "dtype", "") in ("string", "large_string")]
    keys = _keys(name, texts, wanted, columns)
    for record in table.select_columns(keys):
        yield [record[key] or "" for key in keys]
