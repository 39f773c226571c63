"""The card of a trained encoder: recipe, results, and whom to cite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersphere.objectives import create_objective
from hypersphere.report import markdown_table, write_whole
from hypersphere.training.reading import write_recipe
from hypersphere.training.recipe import Recipe


def write_card(folder: Path, recipe: Recipe, results: dict[str, Any]) -> Path:
    """Writes model/README.md, in the form model hubs show."""
    text = "\n\n".join(
        [_front(recipe), _what(recipe), _how(recipe), _results(results), _recipe(recipe), _sources(recipe)]
    )
    return write_whole(folder / "model" / "README.md", text + "\n")


def _front(recipe: Recipe) -> str:
    tags = ["hypersphere", f"objective:{recipe.objective['name']}"]
    lines = ["---"]
    if recipe.task == "text":
        tags += ["sentence-transformers", "sentence-similarity"]
        lines += ["library_name: sentence-transformers", "pipeline_tag: sentence-similarity"]
    return "\n".join([*lines, "tags:", *(f"- {tag}" for tag in tags), "---"])


def _what(recipe: Recipe) -> str:
    kind = {"text": "Sentence encoder", "image": "Image encoder", "three-lines": "Encoder of points in R³"}[recipe.task]
    return (
        f"# {kind} trained with {recipe.objective['name']}\n\n"
        f"{recipe.encoder.name}, trained with hypersphere on {Path(recipe.data.source).name}."
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
        kept = "belongs to this model" if recipe.head.keep else "was used in training only and is not in this folder"
        head = f"\n\nThe {recipe.head.kind} head {kept}."
    return f"## Use\n\n```python\n{code}\n```{head}"


def _results(results: dict[str, Any]) -> str:
    rows = [[name, f"{value:.2f}"] for name, value in results["scores"].items()]
    rows += [["steps", str(results["steps"])]]
    if results["best_step"] is not None:
        rows += [["weights of step", str(results["best_step"])]]
    return "## Results\n\n" + markdown_table(["", "value"], rows)


def _recipe(recipe: Recipe) -> str:
    return f"## Recipe\n\n```yaml\n{write_recipe(recipe)}```"


def _sources(recipe: Recipe) -> str:
    given = dict(recipe.objective)
    source = create_objective(str(given.pop("name")), **given).source
    sources = [f"- objective: {source}"] if source else []
    if recipe.about.source:
        sources.append(f"- protocol: {recipe.about.source}")
    return "## Sources\n\n" + "\n".join([*sources, "- software: hypersphere, see its CITATION.cff"])
