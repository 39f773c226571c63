"""Checks before the first run that everything a recipe reads is present."""

from __future__ import annotations

from hypersphere.documents import locate
from hypersphere.training.recipe import Recipe

HUB = "hf:"


def check_data(recipe: Recipe) -> None:
    """Raises the loader's own error if the data, the encoder or the scored pairs of a recipe are missing. For images,
    only the existence of their file or folder is checked."""
    source = recipe.data.source
    if recipe.task == "image" and source != "digits" and not source.startswith(HUB) and not locate(source).exists():
        from hypersphere.data.images import load_images

        load_images(source)
    if recipe.task != "text":
        return
    from hypersphere.data.sts import load_sts_benchmark
    from hypersphere.data.text import read_corpus

    if not source.startswith(HUB):
        read_corpus(source, recipe.data.views, columns=recipe.data.columns, rows=2)
    if recipe.evaluation.sts is not None:
        load_sts_benchmark(recipe.evaluation.sts, "dev")
    if not locate(recipe.encoder.name).is_dir():  # a hub id, or a missing folder
        from hypersphere.encoders.text import has_own_modules

        has_own_modules(recipe.encoder.name)
