"""Reads a recipe from a YAML file and ``key=value`` words; describes a mistake in one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
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
from hypersphere.training.keys import FIRST, PLURAL, listed, models, section_keys, sections, tags, use_of
from hypersphere.training.recipe import TASKS, NoEffectError, Recipe, validate


def shipped() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    folder = resources.files("hypersphere.training") / "recipes"
    return {path.stem: path for path in sorted(Path(str(folder)).glob("*.yaml"))}


def read_recipe(source: str, words: Iterable[str] = ()) -> Recipe:
    """The recipe in a file, or a shipped one by name; ``section.key=value`` words override it."""
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
    if "objective" in tree:  # a file that the objective names lies beside the recipe
        tree["objective"] = map_names(tree["objective"], lambda name: absolute(name, path.parent))
    words = list(words)
    if {"steps", "epochs"} <= {word.partition("=")[0] for word in words}:
        raise ValueError("a run has either steps or epochs, and both are given")
    original = _sections(deepcopy(tree))
    given = _set_all(tree, words)
    tree = _sections(tree)
    if not tree.get("output"):
        tree["output"] = f"runs/{path.stem}"
    # A key of the file that a word makes useless is no mistake: head=simclr over a head with widths.
    return parse_recipe(tree, spared=lambda key: key not in given and key not in _useless(original))


def parse_recipe(tree: dict[str, Any], spared: Callable[[str], bool] = lambda key: False) -> Recipe:
    """A recipe from nested dictionaries; the first mistake becomes one sentence. A key without effect is a mistake.
    A ``spared`` key without effect is left out instead."""
    while True:
        try:
            return validate(tree)
        except ValidationError as error:
            mistake = Mistake(error, tree)
        refused = next((key for key in mistake.useless if not spared(key)), None)
        if refused is not None or not mistake.useless:
            raise ValueError(mistake.sentence(refused))
        for key in mistake.useless:
            tree = _without(tree, key)


def _without(tree: dict[str, Any], key: str) -> dict[str, Any]:
    """The tree without ``section.key``, and without the section if it is then empty."""
    section, _, name = key.partition(".")
    left = {each: value for each, value in tree[section].items() if each != name} if name else {}
    return {each: left if each == section else value for each, value in tree.items() if each != section or left}


def _useless(tree: dict[str, Any]) -> set[str]:
    """The keys without effect in a recipe as it stands."""
    useless: set[str] = set()

    def noted(key: str) -> bool:
        useless.add(key)
        return True

    with suppress(ValueError):  # without the words it may not be a valid recipe
        parse_recipe(tree, noted)
    return useless


def _sections(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree with every short form written out."""
    return {key: {FIRST[key]: value} if key in FIRST and not isinstance(value, dict) else value
            for key, value in tree.items()}  # fmt: skip


def write_recipe(recipe: Recipe, about: bool = True, public: bool = False) -> str:
    """The resolved recipe as YAML: the keys that have an effect, defaults written out. It reads back as itself.

    public: for other readers. Every absolute path is shortened to its last name, and the run's folder is left out.
    """
    tree = recipe.effective()
    if public:
        tree.pop("output", None)
        tree = without_folders(tree)
    if not about:
        tree.pop("about")
    return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100))


def without_folders(value: Any) -> Any:
    """The same value with every absolute path shortened to its last name: home folders are private.

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


def _set_all(tree: dict[str, Any], words: list[str]) -> set[str]:
    """Sets the values of all words in the tree and returns their keys; only one word may set a key."""
    given: set[str] = set()
    for word in words:
        keys = _set(tree, word)
        if twice := given.intersection(keys):
            raise ValueError(f"{min(twice)} is given twice among the words after the recipe")
        given.update(keys)
    return given


def _set(tree: dict[str, Any], word: str) -> list[str]:
    """Sets the value of a word in the tree and returns the keys it sets."""
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise ValueError(f"{quoted(word)} is not key=value, such as optimizer.lr=1e-4")
    value = parse_value(text, f"the value of {quoted(word)}")
    *sections, last = key.split(".")
    here = tree
    for section in sections:
        inner = here.get(section)
        if inner is not None and not isinstance(inner, dict):
            inner = {FIRST[section]: inner} if section in FIRST else {}
        here[section] = inner = {} if inner is None else inner
        here = inner
    if not sections and last in FIRST and isinstance(here.get(last), dict) and not isinstance(value, dict):
        if last == "objective":  # another objective does not take the first one's parameters
            here[last] = {}
        here[last] = {**here[last], FIRST[last]: value}
    else:
        here[last] = value
    if last == "epochs" and not sections:
        tree["steps"] = None
    if last == "steps" and not sections:
        tree["epochs"] = None
    if isinstance(value, dict):
        return [f"{key}.{name}" for name in value]
    return [f"{key}.{FIRST[key]}" if key in FIRST else key]


# --- from a mistake to one sentence


class Mistake:
    """The first error that pydantic finds in a tree."""

    def __init__(self, error: ValidationError, tree: Mapping[str, Any]) -> None:
        details = error.errors()[0]
        self.kind, self.message, self.input = details["type"], str(details["msg"]), details["input"]
        self.context: Mapping[str, Any] = details.get("ctx", {})
        self.tree = tree
        self.task = tree["task"] if tree.get("task") in TASKS else None
        self.place = self._without_tags([str(step) for step in details["loc"]])
        self.key = ".".join(self.place)

    def _without_tags(self, steps: list[str]) -> list[str]:
        """pydantic names the model it chose by the task, and within a section by its first key."""
        if self.task is None:
            return steps
        chosen = len(steps) > 2 and len(models(self.task, steps[1])) > 1
        return [*steps[1:2], *steps[3 if chosen else 2 :]]

    @property
    def useless(self) -> list[str]:
        """The keys of this mistake, if their only fault is that they have no effect here."""
        cause = self.context.get("error")
        if isinstance(cause, NoEffectError):
            return [cause.key]
        if self.kind != "extra_forbidden" or use_of(self.key) is None:
            return []
        given = self.tree[self.key] if len(self.place) == 1 else None
        return [f"{self.key}.{name}" for name in given] if isinstance(given, Mapping) and given else [self.key]

    def sentence(self, useless: str | None = None) -> str:
        """Describes the mistake; ``useless``: the key that has no effect."""
        if useless is not None:
            key = useless if use_of(useless) else useless.partition(".")[0]  # unknown key: name its section
            use = use_of(key)
            return str(NoEffectError(key, use.words if use else "no run"))
        if self.kind == "extra_forbidden":
            return self._unknown_key()
        if self.kind == "missing":
            return f"the recipe needs {self.key}"
        if self.kind in ("union_tag_not_found", "union_tag_invalid"):
            return self._wrong_choice()
        if self.kind == "value_error":
            return self.message.removeprefix("Value error, ")
        words = f"{self.message[:1].lower()}{self.message[1:]}"
        if self.kind != "literal_error":
            return f"{self.key} is {quoted(self.input)}: {words}"
        key = self.key.rstrip(".0123456789")  # an index into a list
        verb = "is" if key == self.key else "has"
        return f"{key} {verb} {quoted(self.input)}: {words}{self._hint(key, self.input, self.context['expected'])}"

    def _wrong_choice(self) -> str:
        """The value that chooses the model of a section is missing or unknown."""
        first = FIRST[self.place[0]] if self.place else "task"
        key = ".".join([*self.place, first])
        section = self.tree[self.place[0]] if self.place else self.tree
        given = section.get(first) if isinstance(section, Mapping) else section
        if given is None:
            return f"the recipe needs {key}"
        names = re.findall("'([^']*)'", self.context.get("expected_tags", "")) or list(TASKS)
        allowed = listed([f"'{name}'" for name in names], "or")
        return f"{key} is {quoted(given)}: input should be {allowed}{self._hint(key, given, allowed)}"

    def _hint(self, key: str, given: Any, allowed: str) -> str:
        """Where else the value is allowed, or the nearest value that is allowed here."""
        section, _, name = key.partition(".")
        there = [(task, model) for task in TASKS for model in models(task, section) if _takes(model, name, given)]
        where = [tag for task, model in there if task == self.task for tag in tags(model, section)]
        where = where or [PLURAL[task] for task, _ in there]
        if where:
            return f"; {quoted(given)} is for {listed(list(dict.fromkeys(where)))}"
        return did_you_mean(given, re.findall("'([^']*)'", allowed))

    def _unknown_key(self) -> str:
        *above, word = self.place
        known = sections(self.task)
        if above:
            given = self.tree.get(above[0])
            tag = given.get(FIRST.get(above[0], "")) if isinstance(given, Mapping) else None
            known = section_keys(str(self.task), above[0], tag) if len(above) == 1 else []
        meant = self._meant(word, above, known)
        hint = f"; did you mean {listed(meant, 'or')}?" if meant else ""
        return f"the recipe has no key {self.key}{hint} ({'.'.join(above) or 'it'} takes {', '.join(known)})"

    def _meant(self, word: str, above: list[str], known: list[str]) -> list[str]:
        """The keys that may have been meant: the same word in another section, else the nearest in this section or in
        another one."""
        elsewhere = self._all_keys()
        same = [key for key in elsewhere if key.rpartition(".")[2] == word]
        if same:
            return same
        for here, there in ((0.8, 0.8), (0.5, 1)):
            near = nearest(word, known, alike=here)
            if near:
                return [".".join([*above, near])]
            near = nearest(word, {key.rpartition(".")[2] for key in elsewhere}, alike=there)
            if near:
                return [key for key in elsewhere if key.rpartition(".")[2] == near]
        return []

    def _all_keys(self) -> list[str]:
        """The keys of all sections of the recipe's task, those of its objective included."""
        task = str(self.task)
        keys = [f"{section}.{key}" for section in sections(task) for key in section_keys(task, section)]
        keys = [key for key in keys if not key.startswith("about.")]
        given = self.tree.get("objective")
        with suppress(ValueError):  # an unknown objective is reported as the next mistake
            name = given.get("name") if isinstance(given, Mapping) else given or "infonce"
            settings = [setting for setting in objective_class(str(name)).settings() if setting != "gather"]
            keys += [f"objective.{setting}" for setting in ("name", *settings)]
        return keys


def _takes(model: type[BaseModel], name: str, value: Any) -> bool:
    """Whether the value is one of the names that a key allows, alone or in a list."""
    field = model.model_json_schema()["properties"].get(name, {})
    allowed = field.get("items", field)
    return value in (allowed.get("enum") or [allowed.get("const", ...)])
