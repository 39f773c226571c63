"""Every key of a recipe, from the recipe itself: ``python -m hypersphere.training.keys docs/recipe-keys.md``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hypersphere.report import write_whole
from hypersphere.training.effects import EVERYWHERE, TASKS, use_of
from hypersphere.training.recipe import Recipe

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
        """For a terminal, where what holds for every run goes without saying."""
        effect = "" if self.effect == EVERYWHERE.words else self.effect
        return [self.key, self.allowed, self.default, self.description, effect]


def recipe_keys(task: str | None = None) -> list[Key]:
    """All keys in the order of the recipe, or those that can have an effect in a task."""
    schema = Recipe.model_json_schema()
    found: list[Key] = []
    for name, entry in schema["properties"].items():
        section = schema["$defs"].get(str(entry.get("$ref", "")).rpartition("/")[2])
        if name == "objective":
            found += _objective(entry)
        elif section is None:
            found.append(_key(name, entry, name in schema["required"]))
        else:
            needed = section.get("required", [])
            found += [_key(f"{name}.{key}", inner, key in needed) for key, inner in section["properties"].items()]
    return [key for key in found if task is None or task in key.tasks]


def _objective(entry: dict[str, Any]) -> list[Key]:
    settings = "a setting of the objective, such as temperature; `hypersphere objectives NAME` lists them"
    return [
        Key("objective.name", "text", entry["default"]["name"], entry["description"], EVERYWHERE.words, TASKS),
        Key("objective.…", "as it has it", "as it has it", settings, EVERYWHERE.words, TASKS),
    ]


def _key(key: str, entry: dict[str, Any], required: bool) -> Key:
    use = use_of(key)
    default = "required" if required else _value(entry.get("default"))
    return Key(key, _allowed(entry), default, entry["description"], use.words, use.tasks)


def _value(value: Any) -> str:
    """As YAML writes it on one line."""
    return '""' if value == "" else str(yaml.safe_dump(value, default_flow_style=True)).removesuffix("...\n").strip()


def _allowed(entry: dict[str, Any]) -> str:
    """The type and range of a value in words, from its JSON schema."""
    if "anyOf" in entry:
        return ", or ".join(_allowed(each) for each in entry["anyOf"])
    if "enum" in entry:
        return ", ".join(entry["enum"])
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
    sections = Recipe.model_json_schema()["$defs"]
    groups: dict[str, list[Key]] = {}
    for key in recipe_keys():
        groups.setdefault(key.key.partition(".")[0] if "." in key.key else "", []).append(key)
    for name, keys in sorted(groups.items(), key=lambda group: group[0] != ""):  # those without a section first
        field = Recipe.model_fields.get(name)
        about = sections.get(getattr(field.annotation, "__name__", "") if field else "", {}).get("description", "")
        title = f"## {name}" if name else "## The run"
        parts.append("\n\n".join(filter(None, (title, about, _table(keys)))) + "\n")
    return "\n".join(parts)


def _table(keys: list[Key]) -> str:
    rows = [f"| `{k.key}` | {k.allowed} | `{k.default}` | {k.description} | {k.effect} |" for k in keys]
    return "\n".join([f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", *rows])


def main(arguments: list[str]) -> int:
    if not arguments:
        print(page())
        return 0
    write_whole(Path(arguments[0]), page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
