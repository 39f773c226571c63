"""From a YAML file and ``key=value`` words to a recipe, and from a mistake to one sentence."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import deepcopy
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from hypersphere.names import did_you_mean, nearest
from hypersphere.training.recipe import NoEffectError, Recipe

# A bare value for a section means its first word: objective=met, encoder=resnet18.
_SHORT = {
    "objective": "name",
    "encoder": "name",
    "data": "source",
    "head": "kind",
    "optimizer": "name",
    "schedule": "name",
    "batch": "size",
    "augmentation": "name",
}


def shipped() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    folder = resources.files("hypersphere.training") / "recipes"
    return {path.stem: path for path in sorted(Path(str(folder)).glob("*.yaml"))}


def read_recipe(source: str, words: Iterable[str] = ()) -> Recipe:
    """The recipe in a file, or a shipped one by name, with ``section.key=value`` words put over it."""
    path = Path(source).expanduser()
    if not path.is_file():
        names = shipped()
        if source not in names:
            hint = did_you_mean(source, names)
            raise FileNotFoundError(f"there is no recipe {source}{hint} (hypersphere recipes lists the shipped ones)")
        path = names[source]
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict):
        raise ValueError(f"{path.name} must hold sections such as data and encoder, not {type(tree).__name__}")
    words = list(words)
    if {"steps", "epochs"} <= {word.partition("=")[0] for word in words}:
        raise ValueError("a run has either steps or epochs, and both are given")
    original = _sections(deepcopy(tree))
    given = {key for word in words for key in _put(tree, word)}
    tree = _sections(tree)
    if not tree.get("output"):
        tree["output"] = f"runs/{path.stem}"
    # What the file says and the words have made useless is nobody's mistake: head=simclr over a head with widths.
    return parse_recipe(tree, spared=lambda key: key not in given and key not in _useless(original))


def parse_recipe(tree: dict[str, Any], spared: Callable[[str], bool] = lambda key: False) -> Recipe:
    """A recipe from nested dictionaries; the first mistake becomes one sentence. A key without effect is a mistake,
    unless it is ``spared``: then it is left out."""
    while True:
        try:
            return Recipe.model_validate(tree)
        except ValidationError as error:
            first = error.errors()[0]
        cause = first.get("ctx", {}).get("error")
        if not isinstance(cause, NoEffectError) or not spared(cause.key):
            raise ValueError(_sentence(first))
        section, _, name = cause.key.partition(".")
        tree = {**tree, section: {key: value for key, value in tree[section].items() if key != name}}


def _useless(tree: dict[str, Any]) -> set[str]:
    """The keys without effect in a recipe as it stands."""
    found: set[str] = set()

    def noted(key: str) -> bool:
        found.add(key)
        return True

    with suppress(ValueError):  # it may need the words to be a recipe
        parse_recipe(tree, noted)
    return found


def _sections(tree: dict[str, Any]) -> dict[str, Any]:
    """With every short form written out."""
    return {key: {_SHORT[key]: value} if key in _SHORT and not isinstance(value, dict) else value
            for key, value in tree.items()}  # fmt: skip


def write_recipe(recipe: Recipe) -> str:
    """The resolved recipe as YAML, every default written out."""
    return str(yaml.safe_dump(recipe.model_dump(), sort_keys=False, allow_unicode=True, width=100))


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML that reads 3e-5 as a number, as everybody means it."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*)(\.[\d_]*)?([eE][-+]?\d+)$"),
    list("-+0123456789"),
)


def _put(tree: dict[str, Any], word: str) -> list[str]:
    """Puts the value of a word in its place; the keys it gives."""
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise ValueError(f"{word!r} is not key=value, such as optimizer.lr=1e-4")
    try:
        value = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError:
        raise ValueError(f"the value of {word!r} is not YAML") from None
    *sections, last = key.split(".")
    here = tree
    for section in sections:
        inner = here.get(section)
        if inner is not None and not isinstance(inner, dict):
            inner = {_SHORT[section]: inner} if section in _SHORT else {}
        here[section] = inner = {} if inner is None else inner
        here = inner
    if not sections and last in _SHORT and isinstance(here.get(last), dict) and not isinstance(value, dict):
        if last == "objective":  # another objective does not take the first one's parameters
            here[last] = {}
        here[last] = {**here[last], _SHORT[last]: value}
    else:
        here[last] = value
    if last == "epochs" and not sections:
        tree["steps"] = None
    if last == "steps" and not sections:
        tree["epochs"] = None
    if isinstance(value, dict):
        return [f"{key}.{name}" for name in value]
    return [f"{key}.{_SHORT[key]}" if key in _SHORT else key]


def _sentence(error: Any) -> str:
    place = [str(step) for step in error["loc"]]
    key = ".".join(place)
    if error["type"] == "extra_forbidden":
        known = _known(place[:-1])
        near = nearest(place[-1], known, alike=0.5)
        whole = ".".join([*place[:-1], near]) if near else _elsewhere(place[-1])
        hint = f"; did you mean {whole}?" if whole else ""
        return f"the recipe has no key {key}{hint} ({'.'.join(place[:-1]) or 'it'} takes {', '.join(known)})"
    if error["type"] == "missing":
        return f"the recipe needs {key}"
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "value_error":
        return message
    return f"{key} is {error['input']!r}: {message[:1].lower()}{message[1:]}"


def _known(place: list[str]) -> list[str]:
    model: Any = Recipe
    for step in place:
        kinds = [model.model_fields[step].annotation, *typing.get_args(model.model_fields[step].annotation)]
        model = next((k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), None)
        if model is None:
            return []
    return list(model.model_fields)


def _elsewhere(word: str) -> str | None:
    """The key as another section has it: lr is optimizer.lr."""
    for section, field in Recipe.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            near = nearest(word, kind.model_fields, alike=0.8)
            if near:
                return f"{section}.{near}"
    return None
