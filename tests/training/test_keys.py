"""The list of keys is the recipe's: none is missing, each has its words, and its ranges are those that are checked."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from hypersphere.cli.app import app
from hypersphere.training.effects import EFFECT
from hypersphere.training.keys import recipe_keys
from hypersphere.training.reading import parse_recipe, read_recipe
from hypersphere.training.recipe import Recipe


def fields() -> set[str]:
    """The keys as the models have them, by another way than the schema."""
    found = set()
    for name, field in Recipe.model_fields.items():
        kind = field.annotation
        sections = isinstance(kind, type) and issubclass(kind, BaseModel)
        found |= {f"{name}.{key}" for key in kind.model_fields} if sections else {name}  # type: ignore[union-attr]
    return found - {"objective"} | {"objective.name", "objective.…"}


def test_every_key_is_listed_once_with_a_description() -> None:
    keys = [key.key for key in recipe_keys()]
    assert sorted(keys) == sorted(fields())
    for key in recipe_keys():
        assert len(key.description) > 5 and key.allowed and key.default and key.effect, key


def test_every_condition_is_of_a_key_there_is() -> None:
    assert set(EFFECT) <= fields()


BOUNDED = [key for key in recipe_keys() if re.search("[<>≤≥]", key.allowed) and not key.allowed.startswith("list")]


@pytest.mark.parametrize("key", BOUNDED, ids=lambda key: key.key)
def test_a_value_beyond_the_listed_range_is_refused(key: object) -> None:
    name, _, rest = key.key.partition(".")  # type: ignore[attr-defined]
    bounds = re.findall("([<>≤≥])\N{NO-BREAK SPACE}([0-9.e+]+)", key.allowed)  # type: ignore[attr-defined]
    assert bounds
    for sign, bound in bounds:
        beyond = float(bound) if sign in "<>" else float(bound) + (1 if sign == "≤" else -1)
        tree = read_recipe("digits").model_dump() | ({"steps": None} if name == "epochs" else {})
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
