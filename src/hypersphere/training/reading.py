"""From a YAML file and ``key=value`` words to a recipe, and from a mistake to one sentence."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import deepcopy
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from hypersphere.documents import expand, parse_value, read_yaml
from hypersphere.messages import quoted
from hypersphere.names import did_you_mean, nearest
from hypersphere.objectives.files import absolute, map_names
from hypersphere.objectives.registry import objective_class
from hypersphere.training.effects import NoEffectError, effective, use_of
from hypersphere.training.recipe import Recipe

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
    path = expand(source)
    if not path.is_file():
        names = shipped()
        if source not in names:
            hint = did_you_mean(source, names)
            raise FileNotFoundError(f"there is no recipe {source}{hint} (hypersphere recipes lists the shipped ones)")
        path = names[source]
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise ValueError(f"{path.name} must hold sections such as data and encoder, not {type(tree).__name__}")
    if "objective" in tree:  # a file it names lies beside the recipe
        tree["objective"] = map_names(tree["objective"], lambda name: absolute(name, path.parent))
    words = list(words)
    if {"steps", "epochs"} <= {word.partition("=")[0] for word in words}:
        raise ValueError("a run has either steps or epochs, and both are given")
    original = _sections(deepcopy(tree))
    given = _put_all(tree, words)
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
            raise ValueError(_sentence(first, tree))
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


def write_recipe(recipe: Recipe, about: bool = True, public: bool = False) -> str:
    """The resolved recipe as YAML: the keys that have an effect, defaults written out; it reads back as itself.

    public: for others to read, with a name in the place of every absolute path, and without the run's folder.
    """
    tree = effective(recipe)
    if public:
        tree.pop("output", None)
        tree = without_folders(tree)
    if not about:
        tree.pop("about")
    return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100))


def without_folders(value: Any) -> Any:
    """The same with the last name of every absolute path alone: a home folder is nobody else's business.

    >>> without_folders({"source": "/home/me/wiki.txt", "encoder": "org/model", "steps": 3})
    {'source': 'wiki.txt', 'encoder': 'org/model', 'steps': 3}
    """
    if isinstance(value, dict):
        return {key: without_folders(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_folders(each) for each in value]
    if not isinstance(value, str):
        return value
    start = "hf:" if value.startswith("hf:") else ""
    path = Path(value.removeprefix(start))
    return start + path.name if path.is_absolute() or value.startswith("~") else value


def _put_all(tree: dict[str, Any], words: list[str]) -> set[str]:
    """Puts the values of words in their places; the keys they give, each of which only one word may give."""
    found: set[str] = set()
    for word in words:
        keys = _put(tree, word)
        if twice := found.intersection(keys):
            raise ValueError(f"{min(twice)} is given twice among the words after the recipe")
        found.update(keys)
    return found


def _put(tree: dict[str, Any], word: str) -> list[str]:
    """Puts the value of a word in its place; the keys it gives."""
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise ValueError(f"{quoted(word)} is not key=value, such as optimizer.lr=1e-4")
    value = parse_value(text, f"the value of {quoted(word)}")
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


def _sentence(error: Any, tree: dict[str, Any]) -> str:
    place = [str(step) for step in error["loc"]]
    key = ".".join(place)
    if error["type"] == "extra_forbidden":
        known = _known(place[:-1])
        meant = _meant(place[-1], place[:-1], known, tree)
        hint = f"; did you mean {' or '.join(filter(None, (', '.join(meant[:-1]), meant[-1])))}?" if meant else ""
        return f"the recipe has no key {key}{hint} ({'.'.join(place[:-1]) or 'it'} takes {', '.join(known)})"
    if error["type"] == "missing":
        return f"the recipe needs {key}"
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "value_error":
        return message
    return f"{key} is {quoted(error['input'])}: {message[:1].lower()}{message[1:]}"


def _known(place: list[str]) -> list[str]:
    model: Any = Recipe
    for step in place:
        kinds = [model.model_fields[step].annotation, *typing.get_args(model.model_fields[step].annotation)]
        model = next((k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), None)
        if model is None:
            return []
    return list(model.model_fields)


def _meant(word: str, place: list[str], known: list[str], tree: dict[str, Any]) -> list[str]:
    """The keys that may have been meant: this very word in another section, else the nearest in this section or in
    another one. Keys without effect in the recipe's task are not named."""
    elsewhere = _all_keys(tree)
    same = [key for key in elsewhere if key.rpartition(".")[2] == word]
    if same:
        return same
    for here, there in ((0.8, 0.8), (0.5, 1)):
        near = nearest(word, known, alike=here)
        if near:
            return [".".join([*place, near])]
        near = nearest(word, {key.rpartition(".")[2] for key in elsewhere}, alike=there)
        if near:
            return [key for key in elsewhere if key.rpartition(".")[2] == near]
    return []


def _all_keys(tree: dict[str, Any]) -> list[str]:
    """The keys of all sections, those of the recipe's objective included, that can have an effect in its task."""
    found = [f"{section}.{key}" for section in Recipe.model_fields for key in _known([section])]
    found = [key for key in found if tree.get("task") is None or tree["task"] in use_of(key).tasks]
    given = tree.get("objective")
    with suppress(ValueError):  # an objective that is not known is the next mistake, not this one
        name = given.get("name") if isinstance(given, dict) else given or "infonce"
        settings = [setting for setting in objective_class(str(name)).settings() if setting != "gather"]
        found += [f"objective.{setting}" for setting in ("name", *settings)]
    return found
