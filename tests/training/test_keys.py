"""The list of keys is the recipe's: none is missing, each has its words, and its ranges are those that are checked."""

from __future__ import annotations

import json
import re
import typing
from operator import attrgetter
from typing import Any

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from hypersphere.cli.app import app
from hypersphere.training.keys import models as section_models
from hypersphere.training.keys import recipe_keys, tags, use_of
from hypersphere.training.load import parse_recipe, read_recipe
from hypersphere.training.recipe import TASKS
from hypersphere.training.sections import OnlyFor


def models(kind: Any) -> list[type[BaseModel]]:
    """The models that a section may be, whatever stands around them."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [model for each in typing.get_args(kind) for model in models(each)]


def fields() -> set[str]:
    """The keys as the models have them, by another way than the list."""
    keys = set()
    for recipe in TASKS.values():
        for name, field in recipe.model_fields.items():
            keys |= {f"{name}.{key}" for model in models(field.annotation) for key in model.model_fields} or {name}
    return keys - {"objective"} | {"objective.name", "objective.…"}


BOUNDED = [key for key in recipe_keys() if re.search("[<>≤≥]", key.allowed) and not key.allowed.startswith("list")]


def test_every_key_is_listed_once_with_a_description() -> None:
    keys = [key.key for key in recipe_keys()]
    assert sorted(keys) == sorted(fields())
    for key in recipe_keys():
        assert len(key.description) > 5 and key.allowed and key.default and key.effect, key


def test_every_condition_is_of_a_value_that_a_recipe_has() -> None:
    recipes = [read_recipe(name) for name in ("digits", "simcse-small", "three-lines")]
    recipes.append(read_recipe("digits", ["augmentation=simclr"]))
    needed = [
        (recipe, only.needs)
        for recipe in recipes
        for _, part in recipe
        for field in (type(part).model_fields.values() if isinstance(part, BaseModel) else ())
        for only in field.metadata
        if isinstance(only, OnlyFor)
    ]
    assert {needs for _, needs in needed} == {
        "scored", "reads_labels", "data.held_out", "data.of_many_sizes", "evaluation.after", "has_negatives",
        "augmentation.local_views",
    }  # fmt: skip
    for recipe, needs in needed:
        attrgetter(needs)(recipe)


@pytest.mark.parametrize(
    "key, words",
    [
        ("optimizer.lr", "every run"),
        ("data.noise", "three-lines"),
        ("evaluation.after", "text and images"),
        ("augmentation.size", "images"),
        ("augmentation.strength", "simclr views"),
        ("encoder.norm", "small-cnn and mlp"),
        ("encoder.weights", "resnet18 and resnet50"),
        ("head.hidden", "mlp heads"),
        ("head.output", "linear-tanh, simcse, simclr and mlp heads"),
        ("head.keep", "linear-tanh and simcse heads on text"),
        ("monitor.rows", "runs with data.held_out"),
    ],
)
def test_where_a_key_has_an_effect_follows_from_the_models_that_have_it(key: str, words: str) -> None:
    use = use_of(key)
    assert use is not None and use.words == words


@pytest.mark.parametrize("key", BOUNDED, ids=lambda key: key.key)
def test_a_value_beyond_the_listed_range_is_refused(key: object) -> None:
    name, _, rest = key.key.partition(".")  # type: ignore[attr-defined]
    bounds = re.findall("([<>≤≥])\N{NO-BREAK SPACE}([0-9.e+]+)", key.allowed)  # type: ignore[attr-defined]
    assert bounds
    task = key.tasks[0]  # type: ignore[attr-defined]
    recipe = {"text": "simcse-small", "image": "digits", "three-lines": "three-lines"}[task]
    holder = next((tags(model, name) for model in section_models(task, name) if rest in model.model_fields), ())
    choice = [f"{name}={holder[0]}"] if holder else []  # the model that has the key
    for sign, bound in bounds:
        beyond = float(bound) if sign in "<>" else float(bound) + (1 if sign == "≤" else -1)
        tree = read_recipe(recipe, choice).model_dump() | ({"steps": None} if name == "epochs" else {})
        tree[name] = {**tree[name], rest: beyond} if rest else beyond
        with pytest.raises(ValueError, match=f"{key.key} is .*: input should be"):  # type: ignore[attr-defined]
            parse_recipe(tree)


def test_a_task_has_only_keys_that_can_have_an_effect_in_it() -> None:
    text, image = ({key.key for key in recipe_keys(task)} for task in ("text", "image"))
    assert {"encoder.pooling", "evaluation.sts", "batch.cache"} <= text - image
    assert {"augmentation.name", "encoder.stem", "data.size", "evaluation.knn"} <= image - text
    assert {"data.source", "optimizer.lr", "objective.name", "head.hidden"} <= text & image
    assert not any(key.startswith("about.") or key == "data.noise" for key in text | image)


def test_the_command_lists_keys_and_refuses_what_is_no_task() -> None:
    runner = CliRunner()
    shown = runner.invoke(app, ["train", "--keys", "text"])
    assert shown.exit_code == 0 and "encoder.max_length" in shown.stdout and "augmentation" not in shown.stdout
    assert "integer ≥\N{NO-BREAK SPACE}0" in shown.stdout and "\\x" not in shown.stdout
    listed = json.loads(runner.invoke(app, ["train", "--keys", "--json"]).stdout)
    assert [each["key"] for each in listed] == [key.key for key in recipe_keys()]
    wrong = runner.invoke(app, ["train", "--keys", "imag"])
    assert wrong.exit_code == 2 and "did you mean 'image'?" in wrong.stderr
    idle = runner.invoke(app, ["train", "--keys", "text", "steps=3"])
    assert idle.exit_code == 2 and "only lists keys" in idle.stderr
    nothing = runner.invoke(app, ["train"])
    assert nothing.exit_code == 2 and "hypersphere recipes lists" in nothing.stderr


def test_a_check_prints_what_has_an_effect_and_nothing_else() -> None:
    runner = CliRunner()
    image = runner.invoke(app, ["train", "digits", "--check"]).stdout
    for absent in ("pooling", "sts", "chunk", "momentum", "strength", "noise", "epochs", "about", "labels", "stem"):
        assert f"{absent}:" not in image, absent
    text = runner.invoke(app, ["train", "simcse-small", "--check"]).stdout
    assert "augmentation:" not in text and "knn:" not in text and "max_length:" in text
