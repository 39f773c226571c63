"""The answers of the server: what the page asks for, computed by the package's own functions."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from hypersphere.diagnostics.files import SUFFIXES, Loaded
from hypersphere.explorer import embeddings, maps, papers, runs
from hypersphere.explorer.catalogue import catalogue
from hypersphere.explorer.folders import NotHereError, inside
from hypersphere.explorer.uploads import LARGEST, TEXTS, Uploads
from hypersphere.messages import INPUT, one_line, reason

JSON = "application/json; charset=utf-8"
# A report is a page of its own with styles inside; it may neither run programs nor reach the server.
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"
PICTURES = {".png": "image/png", ".csv": "text/csv; charset=utf-8"}
WORDS = ("objective", "points", "negatives", "source", "second", "texts", "arrays")  # of questions, beside settings
LARGEST_FILE = 2**25  # bytes of a picture or report
Query = Mapping[str, str]


class Answer(NamedTuple):
    """What goes back to the browser; ``path`` is sent a piece at a time and removed if ``temporary``."""

    body: bytes = b""
    kind: str = JSON
    status: int = 200
    path: Path | None = None
    temporary: bool = False
    name: str = ""  # under which the browser saves it
    policy: str = ""  # in place of the page's


def as_json(tree: Any, status: int = 200) -> Answer:
    return Answer(json.dumps(tree, ensure_ascii=False, allow_nan=False).encode(), status=status)


def as_sentence(words: str) -> str:
    """Words with a capital, unless they begin with the name of a file, and a full stop.

    >>> as_sentence("there is nothing"), as_sentence("z.npy is empty"), as_sentence("did you mean 'met'?")
    ('There is nothing.', 'z.npy is empty.', "Did you mean 'met'?")
    """
    sentence = one_line(words).rstrip(".")
    if sentence.split(" ")[0].isalpha():
        sentence = f"{sentence[0].upper()}{sentence[1:]}"
    return sentence if sentence.endswith("?") else f"{sentence}."


def as_error(words: str, status: int) -> Answer:
    """One sentence."""
    return as_json({"error": as_sentence(words)}, status)


class Api:
    """The folders and files the server was given, and the questions about them.

    folders: those of "runs" and "studies". given: a file with embeddings, or a run. results: a folder that reproduce
    has written. Computations wait for each other, so that
    several tabs do not compete for the processor; files and lists do not wait.
    """

    def __init__(
        self, uploads: Path, folders: Mapping[str, Path | None] | None = None, given: Path | None = None,
        results: Path | None = None, largest: int = LARGEST,
    ) -> None:  # fmt: skip
        self.uploads = Uploads(uploads, largest)
        self.roots = {name: root for name, root in (folders or {}).items() if root is not None}
        self.given, self.results = given, results
        self._busy = threading.Lock()
        self._examined = lru_cache(maxsize=8)(self._examine)
        self._catalogue = lru_cache(maxsize=1)(lambda: catalogue() | self.about())
        self._fixed: dict[str, Callable[[Query], Answer]] = {
            "catalogue": lambda query: as_json(self._catalogue()),
            "map": self._map,
            "embeddings": self._embeddings,
            "parquet": self._parquet,
            "runs": lambda query: as_json(self.list_runs()),
            "studies": lambda query: as_json(self.list_studies()),
            "papers": lambda query: as_json(papers.list_papers(self.results)),
        }
        self._named: dict[str, Callable[[str], Answer]] = {
            "runs": lambda name: as_json(self.read_run(name)),
            "studies": lambda name: as_json(self.read_study(name)),
            "figure": self._figure,
            "report": self._report,
        }

    def about(self) -> dict[str, Any]:
        """What this server has, for the pages."""
        return {
            "given": "" if self.given is None else self.given.resolve().name,
            "largest_upload": self.uploads.largest,
            "suffixes": [*SUFFIXES, *TEXTS],
            "has": {"runs": "runs" in self.roots, "studies": "studies" in self.roots,
                    "results": self.results is not None},
        }  # fmt: skip

    def get(self, path: str, query: Query) -> Answer:
        """The answer to a path below ``/api/``; any mistake costs one sentence."""
        first, _, rest = path.partition("/")
        try:
            if not rest and first in self._fixed:
                return self._fixed[first](query)
            if first in self._named:
                return self._named[first](rest)
            return as_error("there is nothing of that name here", 404)
        except NotHereError as error:
            return as_error(str(error), 404)
        except (*INPUT, TypeError, RuntimeError) as error:
            return as_error(self._without_folders(reason(error, lines=1)), 400)
        except Exception as error:  # the server lives on
            return as_error(f"unexpected {type(error).__name__}: {self._without_folders(reason(error, lines=1))}", 500)

    def _without_folders(self, words: str) -> str:
        """A sentence with the names that the reader gave: uploads lie elsewhere under names of their own."""
        words = words.replace(f"{self.uploads.folder}/", "")
        for file, given in self.uploads.names().items():
            words = words.replace(file, given)
        return words

    # --- runs and studies

    def _root(self, kind: str) -> Path:
        if kind not in ("runs", "studies"):
            raise NotHereError("there is nothing of that name here")
        if kind not in self.roots:
            raise NotHereError(f"no folder of {kind} was given: hypersphere explore --{kind} DIR")
        return self.roots[kind]

    def list_runs(self) -> dict[str, Any]:
        if "runs" not in self.roots:
            return {"runs": [], "sentence": "No folder of runs was given: hypersphere explore --runs DIR."}
        rows = runs.list_runs(self.roots["runs"])
        sentence = "" if rows else "The folder holds no run yet; a run appears here when it begins."
        return {"runs": [{**row, "id": f"runs/{row['id']}".rstrip("/")} for row in rows], "sentence": sentence}

    def list_studies(self) -> dict[str, Any]:
        if "studies" not in self.roots:
            return {"studies": [], "sentence": "No folder of studies was given: hypersphere explore --studies DIR."}
        rows = runs.list_studies(self.roots["studies"])
        rows = [{**row, "id": f"studies/{row['id']}".rstrip("/")} for row in rows]
        return {"studies": rows, "sentence": "" if rows else "The folder holds no study yet."}

    def read_run(self, name: str) -> dict[str, Any]:
        kind, _, rest = name.partition("/")
        return {**runs.read_run(self._root(kind), rest), "id": name}

    def read_study(self, name: str) -> dict[str, Any]:
        kind, _, rest = name.partition("/")
        study = runs.read_study(self._root(kind), rest)
        inner = [{**row, "id": f"{kind}/{row['id']}"} for row in study["runs"]]
        return {**study, "id": name, "runs": inner}

    def snapshot(self) -> dict[str, tuple[int, int]]:
        """What has been written, by id; two snapshots that differ name the runs and studies that changed."""
        return {
            f"{kind}/{name}".rstrip("/"): mark
            for kind, root in self.roots.items()
            for name, mark in runs.snapshot(root).items()
        }

    def _report(self, name: str) -> Answer:
        kind, _, rest = name.partition("/")
        path = inside(self._root(kind), f"{rest}/{runs.REPORT}".lstrip("/"))
        return Answer(_read(path), "text/html; charset=utf-8", policy=REPORT_POLICY)

    def _figure(self, name: str) -> Answer:
        """A picture or table below the folder of results, or the picture of a study."""
        kind, _, rest = name.partition("/")
        root = self.results if kind == "papers" else self.roots.get(kind)
        suffix = Path(rest).suffix.lower()
        if root is None or suffix not in PICTURES:
            raise NotHereError("there is nothing of that name here")
        return Answer(_read(inside(root, rest)), PICTURES[suffix])

    # --- maps and embeddings

    def _map(self, query: Query) -> Answer:
        with self._busy:
            return as_json(map_of(query))

    def upload(self, name: str, pieces: Any) -> dict[str, Any]:
        return dict(self.uploads.keep(name, pieces))

    def _source(self, word: str) -> tuple[Path, str]:
        """The file that ``given``, ``upload:ID`` or ``run:ID`` stands for, and its name."""
        kind, _, rest = word.partition(":")
        if kind == "upload":
            return self.uploads.find(rest)
        if kind == "run":
            root, _, name = rest.partition("/")
            folder = self._root(root)
            path = inside(folder, f"{name}/{runs.EMBEDDINGS}".lstrip("/"))
            return path, name or folder.resolve().name
        if word == "given" and self.given is not None:
            return self.given, self.given.resolve().name
        raise NotHereError("choose embeddings first: drop a file, or pick a run")

    def _load(self, query: Query) -> tuple[Loaded, str]:
        first, name = self._source(query.get("source", ""))
        second = self._source(query["second"])[0] if query.get("second") else None
        texts = self._source(query["texts"])[0] if query.get("texts") else None
        for path in (first, second):
            if path is not None and path.parent == self.uploads.folder:
                embeddings.check_upload(path)
        arrays = [each.strip() for each in query.get("arrays", "").split(",") if each.strip()]
        return embeddings.load(first, second, texts, arrays), name

    def _embeddings(self, query: Query) -> Answer:
        with self._busy:
            return self._examined(tuple(sorted(query.items())), self._stamp(query))

    def _stamp(self, query: Query) -> tuple[int, ...]:
        """When the files of a question were written: an answer is kept until they change."""
        words = [query[each] for each in ("source", "second", "texts") if query.get(each)]
        paths = [self._source(word)[0] for word in words]
        paths = [path / runs.EMBEDDINGS if path.is_dir() else path for path in paths]
        return tuple(path.stat().st_mtime_ns for path in paths)

    def _examine(self, asked: tuple[tuple[str, str], ...], stamp: tuple[int, ...]) -> Answer:
        query = dict(asked)
        loaded, name = self._load(query)
        return as_json(embeddings.examine(loaded, name, query.get("objective") or "infonce", _settings(query)))

    def _parquet(self, query: Query) -> Answer:
        with self._busy:
            loaded, name = self._load(query)
            with tempfile.NamedTemporaryFile(dir=self.uploads.folder, suffix=".parquet", delete=False) as file:
                path = Path(file.name)
            try:
                embeddings.write_parquet(loaded, path)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        kind = "application/vnd.apache.parquet"
        return Answer(kind=kind, path=path, temporary=True, name=f"{Path(name).stem or 'embeddings'}.parquet")


def map_of(query: Query) -> dict[str, Any]:
    """The map that a question names."""
    counts = {name: _count(name, query[name]) for name in ("points", "negatives") if name in query}
    return maps.compute_map(query.get("objective", ""), _settings(query), **counts)


def _settings(query: Query) -> dict[str, str]:
    """Settings of an objective: all words of a question that have no meaning of their own."""
    return {key: value for key, value in query.items() if key not in WORDS}


def _count(name: str, value: str) -> int:
    if not value.isdecimal() or len(value) > 9:
        raise ValueError(f"{name} is a whole number, not {one_line(value, 40)!r}")
    return int(value)


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise NotHereError("there is nothing of that name here")
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{path.name} is larger than {LARGEST_FILE / 1e6:,.0f} MB")
    return path.read_bytes()
