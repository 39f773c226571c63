"""Every key of a recipe, from the recipes themselves: ``python -m hypersphere.training.keys docs/recipe-keys.md``."""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from hypersphere.report import atomic_write
from hypersphere.training.recipe import TASKS, in_order
from hypersphere.training.sections import About, OnlyFor, Part

EVERYWHERE = "every run"
PLURAL = {"text": "text", "image": "images", "three-lines": "three-lines"}
FIRST = {  # a section may be given by this key alone: objective=met, encoder=resnet18
    "objective": "name",
    "encoder": "name",
    "data": "source",
    "head": "kind",
    "optimizer": "name",
    "schedule": "name",
    "batch": "size",
    "augmentation": "name",
}
COLUMNS = ("key", "allowed", "default", "what it does", "has an effect in")
PAGE = """# The keys of a recipe

`hypersphere train RECIPE section.key=value …` sets any of these keys; a YAML file has the same sections. `hypersphere
train --keys text` and `--keys image` list those of one task, `--keys` all, with `--json` for machines. `hypersphere
train RECIPE --check` prints the keys that have an effect in a recipe, with their values. A key that would have none is
refused.

A section may be given by its first word alone: `objective=met`, `encoder=resnet18`, `data=FOLDER`, `batch=128`,
`head=simclr`, `augmentation=shift`, `optimizer=sgd`, `schedule=cosine`.

This page is generated: `python -m hypersphere.training.keys docs/recipe-keys.md`.
"""


class Key(NamedTuple):
    """A key of the recipe, in words."""

    key: str
    allowed: str
    default: str
    description: str
    effect: str
    tasks: tuple[str, ...]

    def cells(self) -> list[str]:
        """The cells of a row for a terminal; the effect is left empty if it holds for every run."""
        effect = "" if self.effect == EVERYWHERE else self.effect
        return [self.key, self.allowed, self.default, self.description, effect]


# --- the models of sections


def sections(task: str | None = None) -> list[str]:
    """The names in a recipe of a task, or of any, in their order: sections, and keys without one."""
    names = {name: None for each, recipe in TASKS.items() if task in (None, each) for name in recipe.model_fields}
    return list(in_order(names))


@cache
def models(task: str, section: str) -> tuple[type[Part], ...]:
    """The models of a section in a task; the first key chooses one of them. Empty if the task has no such section."""
    field = TASKS[task].model_fields.get(section)
    kinds = () if field is None else typing.get_args(field.annotation) or (field.annotation,)
    return tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Part))


def tags(model: type[Part], section: str) -> tuple[str, ...]:
    """The values of a section's first key that choose this model; empty if the key takes any value."""
    field = model.model_fields.get(FIRST.get(section, ""))
    return tuple(map(str, typing.get_args(field.annotation))) if field is not None else ()


def section_keys(task: str, section: str, tag: object = None) -> list[str]:
    """The keys of a section in a task, for the model that ``tag`` chooses, or for all its models."""
    chosen = [model for model in models(task, section) if tag in tags(model, section)] or models(task, section)
    return list(dict.fromkeys(key for model in chosen for key in model.model_fields))


class Use(NamedTuple):
    """Where a key has an effect: in words, and the list of tasks."""

    words: str
    tasks: tuple[str, ...]


@cache
def use_of(key: str) -> Use | None:
    """Where ``section.key``, or a key without a section, has an effect; None if there is no such key."""
    section, _, name = key.partition(".")
    if section == "about" and name in About.model_fields:
        return Use("the list of recipes", ())
    if not name or section == "objective":
        holding = [task for task, recipe in TASKS.items() if section in recipe.model_fields]
        return Use(_in_tasks(holding), tuple(holding)) if holding else None
    having = {task: [model for model in models(task, section) if name in model.model_fields] for task in TASKS}
    tasks = tuple(task for task, owners in having.items() if owners)
    if not tasks:
        return None
    for only in having[tasks[0]][0].model_fields[name].metadata:
        if isinstance(only, OnlyFor):
            return Use(only.words, tasks)
    if all(len(having[task]) == len(models(task, section)) for task in tasks):
        return Use(_in_tasks(tasks), tasks)
    chosen = dict.fromkeys(tag for task in tasks for model in having[task] for tag in tags(model, section))
    kind = {"head": " heads", "augmentation": " views"}.get(section, "")
    others = (model for task in TASKS if task not in tasks for model in models(task, section))
    also = any(tag in tags(model, section) for model in others for tag in chosen)
    return Use(listed(list(chosen)) + kind + (f" on {_in_tasks(tasks)}" if also else ""), tasks)


def _in_tasks(tasks: typing.Sequence[str]) -> str:
    return EVERYWHERE if len(tasks) == len(TASKS) else listed([PLURAL[task] for task in tasks])


def listed(words: typing.Sequence[str], last: str = "and") -> str:
    """
    >>> listed(["text"]), listed(["a", "b", "c"], "or")
    ('text', 'a, b or c')
    """
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1])))


# --- the list of keys


def recipe_keys(task: str | None = None) -> list[Key]:
    """All keys in the order of the recipe, or those that can have an effect in a task."""
    chosen = list(TASKS) if task is None else [task]
    rows = [row for section in sections(task) for row in _rows(section, chosen)]
    return [row for row in rows if task is None or task in row.tasks]


def _rows(section: str, tasks: list[str]) -> Iterator[Key]:
    recipes = [TASKS[task] for task in tasks if section in TASKS[task].model_fields]
    if section == "objective":
        field = recipes[0].model_fields["objective"]
        settings = "a setting of the objective, such as temperature; `hypersphere objectives NAME` lists them"
        yield Key("objective.name", "text", field.default["name"], str(field.description), EVERYWHERE, tuple(TASKS))
        yield Key("objective.…", "as it has it", "as it has it", settings, EVERYWHERE, tuple(TASKS))
        return
    owners = [model for task in tasks for model in models(task, section)]
    if not owners:
        yield _key(section, section, recipes)
    for name in dict.fromkeys(name for model in owners for name in model.model_fields):
        yield _key(f"{section}.{name}", name, [model for model in owners if name in model.model_fields])


def _key(key: str, name: str, owners: typing.Sequence[type[BaseModel]]) -> Key:
    use = use_of(key)
    assert use is not None
    fields = [owner.model_fields[name] for owner in owners]
    defaults = [field.get_default() for field in fields if not field.is_required()]
    allowed = _joined([owner.model_json_schema()["properties"][name] for owner in owners])
    default = _value(defaults[0]) if defaults else "required"
    return Key(key, allowed, default, str(fields[0].description), use.words, use.tasks)


def _value(value: Any) -> str:
    """The value as YAML on one line."""
    return '""' if value == "" else str(yaml.safe_dump(value, default_flow_style=True)).removesuffix("...\n").strip()


def _joined(entries: list[dict[str, Any]]) -> str:
    """The values a key allows in any of its models, from their JSON schemas."""
    ranges = list(dict.fromkeys(map(_allowed, entries)))
    if any(each.get("type") == "string" and not each.keys() & {"enum", "const"} for each in entries):
        return "text"  # any text, which includes the names in other models
    start = "list of " if ranges[0].startswith("list of ") else ""
    names = dict.fromkeys(name for each in ranges for name in each.removeprefix(start).split(", "))
    return start + ", ".join(names) if len(ranges) > 1 else ranges[0]


def _allowed(entry: dict[str, Any]) -> str:
    """The type and range of a value in words, from its JSON schema."""
    if "anyOf" in entry:
        return ", or ".join(_allowed(each) for each in entry["anyOf"])
    if "enum" in entry or "const" in entry:
        return ", ".join(entry.get("enum") or [entry["const"]])
    kind = entry["type"]
    if kind == "array":
        return f"list of {_allowed(entry['items'])}"
    if kind not in ("number", "integer"):
        return {"string": "text", "boolean": "true, false", "null": "null"}[kind]
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = ", ".join(f"{sign}\N{NO-BREAK SPACE}{entry[name]:.10g}" for name, sign in signs.items() if name in entry)
    return " ".join(filter(None, (kind, bounds)))


def page() -> str:
    """The page of all keys, a table for each section."""
    parts = [PAGE]
    groups: dict[str, list[Key]] = {}
    for key in recipe_keys():
        groups.setdefault(key.key.partition(".")[0] if "." in key.key else "", []).append(key)
    for name, keys in sorted(groups.items(), key=lambda group: group[0] != ""):  # those without a section first
        title = f"## {name}" if name else "## The run"
        parts.append("\n\n".join(filter(None, (title, _about(name), _table(keys)))) + "\n")
    return "\n".join(parts)


def _about(section: str) -> str:
    """The description of a section: the docstring of the base class that its models share."""
    for task in TASKS:
        for model in models(task, section):
            common = model.__mro__[model.__mro__.index(Part) - 1]
            return str(common.__doc__).strip()
    return ""


def _table(keys: list[Key]) -> str:
    rows = [f"| `{k.key}` | {k.allowed} | `{k.default}` | {k.description} | {k.effect} |" for k in keys]
    return "\n".join([f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", *rows])


def main(arguments: list[str]) -> int:
    if not arguments:
        print(page())
        return 0
    atomic_write(Path(arguments[0]), page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
