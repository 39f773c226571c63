"""Sections of a recipe: keys whose effect depends on another value."""

from __future__ import annotations

import pytest

from hypersphere.training.load import read_recipe


@pytest.mark.parametrize(
    "recipe, words, key",
    [
        ("three-lines", ["evaluation.every=10"], "evaluation.every"),
        ("three-lines", ["evaluation.best=false"], "evaluation.best"),
        ("simclr-cifar10", ["evaluation.every=10"], "evaluation.every"),
        ("digits", ["evaluation.knn=false", "evaluation.best=false"], "evaluation.best"),
        ("simcse-small", ["evaluation.best=false"], "evaluation.best"),
    ],
)
def test_how_often_to_score_is_refused_where_nothing_is_scored(recipe: str, words: list[str], key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} is for runs with a score"):
        read_recipe(recipe, words)


def test_three_lines_share_their_rows() -> None:
    with pytest.raises(ValueError, match=r"data.rows is 301: three lines of as many points each have a multiple of 3"):
        read_recipe("three-lines", ["data.rows=301"])
    assert read_recipe("three-lines", ["data.rows=303"]).data.rows == 303
