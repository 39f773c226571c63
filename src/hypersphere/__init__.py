"""hypersphere: objectives on the unit hypersphere, one definition each, exact at any batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hypersphere import anatomy, integrations, testing
from hypersphere.anatomy import dissect
from hypersphere.diagnostics import Diagnosis, diagnose
from hypersphere.engine import GradientCache
from hypersphere.engine.evaluate import dense, streaming
from hypersphere.objectives import (
    HardestObjective,
    LogSumObjective,
    PairwiseObjective,
    create_objective,
    list_objectives,
    list_presets,
    register,
)

if TYPE_CHECKING:
    from hypersphere.studies.compare.results import Comparison
    from hypersphere.training.recipe import Recipe
    from hypersphere.training.run import Finished

__version__ = "0.1.0"  # the only place that names it: pyproject.toml reads it

__all__ = [
    "Diagnosis",
    "GradientCache",
    "HardestObjective",
    "LogSumObjective",
    "PairwiseObjective",
    "__version__",
    "anatomy",
    "compare",
    "create_objective",
    "dense",
    "diagnose",
    "dissect",
    "explore",
    "integrations",
    "list_objectives",
    "list_presets",
    "read_recipe",
    "register",
    "streaming",
    "testing",
    "train",
]


def read_recipe(source: str, changes: Iterable[str] = ()) -> Recipe:
    """The recipe in a YAML file, or a shipped one by its name, with changes such as "batch.size=128".

    hs.read_recipe("digits", ["objective=mine.py:triplet", "objective.margin=0.5", "output=runs/mine"])
    """
    recipe: Recipe = _training("load").read_recipe(source, changes)
    return recipe


def train(
    recipe: Recipe | str, changes: Iterable[str] = (), *, resume: bool = False, echo: Callable[[str], None] = print
) -> Finished:
    """Trains one encoder, as ``hypersphere train`` does: ``.folder`` holds the run, ``.results`` its scores.

    ``recipe`` is a result of ``read_recipe`` or its argument. A finished run is never overwritten, and ``resume``
    continues an interrupted run. ``echo`` receives each sentence about the run.

    hs.train("digits", ["objective=ntxent", "steps=100", "output=runs/first"]).results["scores"]
    """
    if isinstance(recipe, str):
        recipe = read_recipe(recipe, changes)
    elif list(changes):
        raise ValueError("changes go with a recipe by name or file; give them to read_recipe")
    finished: Finished = _training("run").train(recipe, resume=resume, echo=echo)
    return finished


def compare(
    recipe: str, objectives: Sequence[str | Mapping[str, Any] | type[Any]], changes: Iterable[str] = (), **options: Any
) -> Comparison:
    """Compares objectives fairly, as ``hypersphere compare`` does: each is tuned with the same number of trials on
    validation data, its best setting is run with fresh seeds, and each of these runs looks at the test set once.

    ``objectives`` are names, mappings with a name and fixed settings, or classes of your own.
    ``options``: trials, seeds, reference, ranges, tune, grid, metric, output, storage, jobs, retry, echo.

    hs.compare("digits", ["ntxent", "dhel", MyObjective], ["steps=100"], trials=4, seeds=8, output="studies/mine")
    """
    comparison: Comparison = _training("run", "studies.compare").compare(recipe, objectives, changes, **options)
    return comparison


def explore(*objectives: str, **options: Any) -> Any:
    """The explorer in a notebook: maps of one or two objectives, moving points on the sphere, one's own embeddings.

    ``options``: z1, z2, labels, texts (embeddings to examine), run (a run's folder).

    hs.explore("infonce", "met"), or hs.explore(z1=first, z2=second)
    """
    return import_module("hypersphere.explorer.widget").explore(*objectives, **options)


def _training(module: str, package: str = "training") -> Any:
    """A module of the training, loaded at its first use: the package alone needs torch and numpy only."""
    try:
        return import_module(f"hypersphere.{package}.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hypersphere"):
            raise
        raise ModuleNotFoundError(
            f"training needs {error.name}: pip install 'hypersphere-lab[text]' or 'hypersphere-lab[image]'",
            name=error.name,
        ) from None
