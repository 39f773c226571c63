"""JSON and YAML of users, runs, models and caches: one reader for each, with limits, and paths that begin with ~.

Any error in a document raises a ``ValueError`` of one sentence that names the document. JSON and YAML alike may not
repeat a key, nest deeper than ``DEEPEST``, or be larger than ``LARGEST``. YAML has no tags; its aliases may not make
it larger than ``MOST_NODES`` nodes.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import types
import typing
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from hypersphere.messages import one_line, quoted

Record = TypeVar("Record")
DATA_HOME = "HYPERSPHERE_DATA"  # the folder in which data sets and encoders are looked for by name
DEEPEST = 64  # levels of lists and objects
LARGEST = 2**26  # bytes of a JSON file
LARGEST_YAML = 2**18  # a recipe has about a thousand
MOST_NODES = 20_000  # of a YAML document with its aliases written out
_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_NAMES: dict[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number",
                           float: "a number", type(None): "nothing"}  # fmt: skip


def expand(path: str | Path) -> Path:
    """The path, with the home folder in place of ``~``; the home of an unknown user is refused."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0]
        raise FileNotFoundError(f"there is no home folder {one_line(user)} (./{one_line(user)} is a name)") from None


def locate(path: str | Path) -> Path:
    """A file or folder to read: ``path``, or the one of that name in the folder ``HYPERSPHERE_DATA``.

    Recipes can thus name their data (``cifar10``, ``SentEval/data/downstream``) independently of its location.
    """
    place, home = expand(path), os.environ.get(DATA_HOME)
    if home and not place.is_absolute() and not place.exists() and (expand(home) / place).exists():
        return expand(home) / place
    return place


def read_json(path: Path, kind: type | None = None) -> Any:
    """The contents of a JSON file; with ``kind`` (dict or list), any other type is refused."""
    return parse_json(read_document(path, LARGEST), str(path), kind)


def parse_json(text: str | bytes, name: str, kind: type | None = None) -> Any:
    """The contents of a JSON text; messages call it ``name``."""
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        _check_depth(text)
        value = json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{name} is not JSON: {error}") from None
    except ValueError as error:
        raise ValueError(f"{name} is not accepted: {one_line(str(error), 150)}") from None
    return _of_kind(value, name, kind)


def json_safe(value: Any, *, digits: int | None = None, infinity: float | None = None) -> Any:
    """The same with null for NaN and infinity, which JSON does not have.

    ``digits``: number of significant digits to keep. ``infinity``: replaces infinity instead of null.

    >>> json_safe({"knn": float("nan"), "steps": [1, 2.5]})
    {'knn': None, 'steps': [1, 2.5]}
    """
    if isinstance(value, dict):
        return {key: json_safe(each, digits=digits, infinity=infinity) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(each, digits=digits, infinity=infinity) for each in value]
    if not isinstance(value, float):
        return value
    if math.isinf(value) and infinity is not None:
        return math.copysign(infinity, value)
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")


def read_yaml(path: Path, kind: type | None = None) -> Any:
    """The contents of a YAML file; with ``kind`` (dict or list), any other type is refused."""
    return parse_yaml(read_document(path, LARGEST_YAML), str(path), kind)


def parse_yaml(text: str, name: str, kind: type | None = None) -> Any:
    """The contents of a YAML text; messages call it ``name``."""
    return _of_kind(deepcopy(_parsed(text, name)), name, kind)


@lru_cache(maxsize=32)  # a study reads its recipe once for each run
def _parsed(text: str, name: str) -> Any:
    return _load(text, name, lambda loader: loader.get_single_data())


def parse_value(text: str, name: str) -> Any:
    """The value of a word of a command line, read as YAML without comments, anchors and folding: a text stays as it was
    typed, including ``#``."""

    def read(loader: Any) -> Any:
        node = loader.get_single_node()
        if loader.anchors_seen:
            raise ValueError("it has an anchor; put a text that begins with & in quotation marks")
        written = text.strip()
        if node is None:
            return written or None
        whole = text[node.start_mark.index : node.end_mark.index].strip() == written
        if node.id == "scalar" and node.style is None:  # neither quoted nor a block
            plain = not whole or node.tag == "tag:yaml.org,2002:str"
            return written if plain else loader.construct_document(node)
        if not whole:
            raise ValueError("there is more text before or after its value")
        return loader.construct_document(node)

    return _load(text, name, read)


def read_document(path: Path, largest: int) -> str:
    """The text of a file in UTF-8; a path that is no file, or a file above the size limit, is refused."""
    with path.open("rb") as file:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError(f"{path} is not an ordinary file")
        data = file.read(largest + 1)
    if len(data) > largest:
        raise ValueError(f"{path} is larger than {largest:,} bytes, too large for what it should hold")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        twice = _repeated(name for name, _ in pairs)
        raise ValueError(f"the key {quoted(twice)} is there twice")
    return mapping


def _repeated(names: Iterable[str]) -> str | None:
    """The first name that occurs a second time."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    depth = 0
    for mark in _MARKS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark[0], 0)
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")


def _of_kind(value: Any, name: str, kind: type | None) -> Any:
    if kind is not None and not isinstance(value, kind):
        raise ValueError(f"{name} should hold {_NAMES[kind]}, not {_NAMES.get(type(value), type(value).__name__)}")
    return value


def as_record(kind: type[Record], values: Any, name: str) -> Record:
    """A dataclass from the contents of a document: its fields, each of its type (numbers, words, None, tuples and
    objects of these), and no others."""
    hints = typing.get_type_hints(kind)
    if not isinstance(values, dict) or not values.keys() <= hints.keys():
        raise ValueError(f"{name} is not {kind.__name__} as it should be")
    for key, value in values.items():
        if not _fits(value, hints[key]):
            raise ValueError(f"{name} has {quoted(value)} for {key}")
    tuples = {key: tuple(value) for key, value in values.items() if typing.get_origin(hints[key]) is tuple}
    try:
        return kind(**{**values, **tuples})
    except TypeError as error:  # a field is missing
        raise ValueError(f"{name} is not {kind.__name__} as it should be: {error}") from None


def _fits(value: Any, hint: Any) -> bool:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return any(_fits(value, each) for each in typing.get_args(hint))
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return isinstance(value, (list, tuple)) and all(_fits(each, inner[0]) for each in value)
    if typing.get_origin(hint) is dict:
        return isinstance(value, dict) and all(_fits(each, inner[1]) for each in value.values())
    if hint is float:
        return type(value) in (int, float)
    return type(value) is hint


# ---- YAML ----


def _load(text: str, name: str, read: Callable[[Any], Any]) -> Any:
    yaml, kind = _yaml()
    try:
        if len(text) > LARGEST_YAML:
            raise ValueError("it is too long")
        loader = kind(text)
        try:
            return read(loader)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        place = "" if error.problem_mark is None else f" (line {error.problem_mark.line + 1})"
        words = one_line(": ".join(filter(None, (error.context, error.problem))), 150)
        understood = isinstance(error, yaml.constructor.ConstructorError)
        raise ValueError(f"{name} is not {'accepted' if understood else 'YAML'}{place}: {words}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{name} is not YAML: {one_line(str(error), 150)}") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name} is not accepted: {one_line(str(error), 150)}") from None


@cache
def _yaml() -> tuple[Any, Any]:
    """The YAML library, which only training needs, and our loader."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise ModuleNotFoundError("a recipe needs yaml: pip install 'hypersphere-lab[train]'", name="yaml") from None

    def refusal(words: str, at: Any) -> Exception:
        refused: Exception = yaml.constructor.ConstructorError(None, None, words, at.start_mark)
        return refused

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """YAML of words, numbers, yes and no, lists and objects; dates are words, and 3e-5 is a number."""

        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

        def __init__(self, text: str) -> None:
            super().__init__(text)
            self.depth = self.nodes = 0
            self.anchors_seen = False
            self.sizes: dict[int, int] = {}  # nodes of a finished node, aliases written out

        def compose_node(self, parent: Any, index: Any) -> Any:
            event, before = self.peek_event(), self.nodes
            if isinstance(event, yaml.AliasEvent):
                return self._alias(super().compose_node(parent, index), event)
            self.anchors_seen |= event.anchor is not None
            if event.tag is not None:
                raise refusal(f"it has the tag {quoted(event.tag)}, and tags are not read", event)
            self.depth += 1
            if self.depth > DEEPEST:
                raise refusal(f"it is nested more than {DEEPEST} levels deep", event)
            self._add(1, event)
            node = super().compose_node(parent, index)
            self.depth -= 1
            self.sizes[id(node)] = self.nodes - before
            return node

        def _alias(self, node: Any, event: Any) -> Any:
            if id(node) not in self.sizes:
                raise refusal("it holds itself", event)
            self._add(self.sizes[id(node)], event)
            return node

        def _add(self, nodes: int, event: Any) -> None:
            self.nodes += nodes
            if self.nodes > MOST_NODES:
                raise refusal(f"it has more than {MOST_NODES:,} values, those of its aliases included", event)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            for key, _ in node.value:
                if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                    raise refusal("a key is not a word", key)
            if (twice := _repeated(key.value for key, _ in node.value)) is not None:
                raise refusal(f"the key {quoted(twice)} is there twice", node)
            return super().construct_mapping(node, deep=deep)

        def construct_scalar(self, node: Any) -> Any:
            number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
            if number and len(node.value) > 100:
                raise refusal(f"a number has {len(node.value)} digits", node)
            return super().construct_scalar(node)

    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items():
        kept = [(tag, form) for tag, form in resolvers if tag.rpartition(":")[2] in _KINDS]
        Loader.yaml_implicit_resolvers[first] = kept
    power = re.compile(r"^[-+]?(\d[\d_]*)(\.[\d_]*)?([eE][-+]?\d+)$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", power, list("-+0123456789"))
    return yaml, Loader


_KINDS = ("bool", "float", "int", "merge", "null")
