"""The card of a model, which others read: nothing in it is more than text, and no folder of the user's is named."""

from __future__ import annotations

from pathlib import Path

import yaml

from hypersphere.training.card import write_card
from hypersphere.training.reading import parse_recipe
from tests.training import worlds

RESULTS = {"given": {}, "scores": {"knn": 90.0}, "best_step": 3, "steps": 6, "outcome": ""}


def test_a_card_names_no_folder_and_holds_no_markup(tmp_path: Path) -> None:
    source = "/home/me/<script>*x*.txt"
    tree = worlds.changed(
        {"task": "text", "data": {"source": source}, "encoder": {"name": "/home/me/models/bert"}, "steps": 6},
        {"evaluation": {"sts": "/home/me/sts"}, "output": "/home/me/run", "about": {"source": "x ```\n# big"}},
    )
    text = write_card(tmp_path, parse_recipe(tree), RESULTS).read_text()
    assert "/home" not in text
    assert r"bert, trained with hypersphere on \<script\>\*x\*.txt." in text
    assert r"- protocol: x \`\`\` \# big" in text
    assert yaml.safe_load(text.split("---")[1])["tags"][:2] == ["hypersphere", "objective:infonce"]


def test_the_recipe_of_a_card_ends_where_its_fence_does(tmp_path: Path) -> None:
    tree = {"task": "text", "data": {"source": "a```b.txt"}, "encoder": {"name": "org/model"}, "steps": 6}
    text = write_card(tmp_path, parse_recipe(tree), RESULTS).read_text()
    recipe = text.split("````yaml\n")[1].split("\n````\n")[0]
    assert yaml.safe_load(recipe)["data"]["source"] == "a```b.txt" and "output" not in yaml.safe_load(recipe)
