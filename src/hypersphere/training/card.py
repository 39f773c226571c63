"""The card of a trained encoder: recipe, results, comparison with the model as given, and citations."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from hypersphere.messages import one_line
from hypersphere.report import atomic_write, markdown_table
from hypersphere.training.folder import MODEL
from hypersphere.training.load import without_folders, write_recipe
from hypersphere.training.recipe import Recipe


def write_card(folder: Path, recipe: Recipe, results: dict[str, Any]) -> Path:
    """Writes README.md into the model's folder, in the format of model hubs."""
    text = "\n\n".join(
        [_front(recipe), _what(recipe), _how(recipe), _results(results), _recipe(recipe), _sources(recipe)]
    )
    return atomic_write(folder / MODEL / "README.md", text + "\n")


def outcome(results: dict[str, Any]) -> str:
    """Better or worse than the model as it was given, or nothing learned; empty if there is nothing to compare.

    >>> print(outcome({"best_step": 60, "given": {"stsb_test": 82.03}, "scores": {"stsb_test": 77.0}}))
    Worse than the model as given: stsb_test 77.00, as given 82.03.
    """
    given, scores = results["given"], results["scores"]
    known = [name for name in scores if name in given and not math.isnan(given[name])]
    worse = [name for name in known if not round(scores[name], 2) >= round(given[name], 2)]  # NaN is worse
    better = [name for name in known if round(scores[name], 2) > round(given[name], 2)]

    def listed(names: list[str]) -> str:
        return "; ".join(f"{name} {scores[name]:.2f}, as given {given[name]:.2f}" for name in names)

    sentences = []
    if results["best_step"] == 0 and results.get("steps") != 0:  # without steps nothing was meant to be learned
        unchanged = given and not worse and not better
        start = "the model as given" if unchanged else "the weights at step 0"
        sentences.append(f"Nothing was learned: no step was better than {start}, which the run kept.")
    if worse:
        sentences.append(f"Worse than the model as given: {listed(worse)}.")
    if better:
        sentences.append(f"Better than the model as given: {listed(better)}.")
    return " ".join(sentences) or ("Neither better nor worse than the model as given." if known else "")


def escaped(text: str) -> str:
    r"""Escapes a name or a line of text, so that Markdown shows it literally.

    >>> print(escaped("my *data* <script>"))
    my \*data\* \<script\>
    """
    return re.sub(r"([\\`*{}\[\]<>|~&!]|(?<!\w)[#_]|_(?!\w))", r"\\\1", one_line(text))


def _front(recipe: Recipe) -> str:
    tags = ["hypersphere", f"objective:{recipe.create_objective().name}"]
    lines = ["---"]
    if recipe.task == "text":
        tags += ["sentence-transformers", "sentence-similarity"]
        lines += ["library_name: sentence-transformers", "pipeline_tag: sentence-similarity"]
    return "\n".join([*lines, "tags:", *(f"- {json.dumps(tag, ensure_ascii=False)}" for tag in tags), "---"])


def _what(recipe: Recipe) -> str:
    kind = {"text": "Sentence encoder", "image": "Image encoder", "three-lines": "Encoder of points in R³"}[recipe.task]
    return (
        f"# {kind} trained with {escaped(recipe.create_objective().name)}\n\n"
        f"{escaped(without_folders(recipe.encoder.name))}, trained with hypersphere on "
        f"{escaped(Path(recipe.data.source).name)}."
    )


def _how(recipe: Recipe) -> str:
    if recipe.task == "text":
        code = (
            "from sentence_transformers import SentenceTransformer\n\n"
            'model = SentenceTransformer("model")\nembeddings = model.encode(["A sentence.", "Another one."])'
        )
    else:
        code = (
            "from hypersphere.encoders.image import load_image_encoder\n\n"
            'encoder, description = load_image_encoder("model")  # images go in normalised as the description says'
        )
    head = ""
    if recipe.task == "text" and recipe.head.kind != "none":
        kept = "belongs to this model" if recipe.keeps_head else "was used in training only and is not in this folder"
        head = f"\n\nThe {recipe.head.kind} head {kept}."
    return f"## Use\n\n```python\n{code}\n```{head}"


def _results(results: dict[str, Any]) -> str:
    given, scores = results["given"], results["scores"]
    before = {name: f"{given[name]:.2f}" if name in given else "–" for name in scores}  # not all sets are scored before
    rows = [[name, *([before[name]] if given else []), f"{value:.2f}"] for name, value in scores.items()]
    columns = ["", "as given", "after training"] if given else ["", "after training"]
    kept = "" if results["best_step"] is None else f"; the weights are those of step {results['best_step']}"
    sentences = [f"Steps trained: {results['steps']}{kept}.", results["outcome"]]
    table = [markdown_table(columns, rows)] if rows else []
    return "\n\n".join(["## Results", *table, *(sentence for sentence in sentences if sentence)])


def _recipe(recipe: Recipe) -> str:
    text = write_recipe(recipe, about=False, public=True)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"## Recipe\n\n{fence}yaml\n{text}{fence}"


def _sources(recipe: Recipe) -> str:
    source = recipe.create_objective().citation()
    sources = [f"- objective: {source}"] if source else []
    if recipe.about.source:
        sources.append(f"- protocol: {escaped(recipe.about.source)}")
    return "## Sources\n\n" + "\n".join([*sources, "- software: hypersphere, see its CITATION.cff"])
