"""Cells: the runs a study consists of, each with an id that is the hash of its resolved recipe."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

from hypersphere.objectives.files import fingerprints
from hypersphere.objectives.settings import Range
from hypersphere.studies.compare.scores import metric_of
from hypersphere.studies.compare.space import Choice, read_key, space_of, stages_of, with_settings
from hypersphere.studies.compare.study import Study, digest, label_of
from hypersphere.training.load import read_recipe
from hypersphere.training.recipe import Recipe

Stage = Literal["untrained", "tuning", "test", "grid"]
UNTRAINED = "untrained"
# Existing records have ids from a time when these objectives had one setting more.
HAD_A_VARIANT = (
    *("align_uniform", "cloa", "kcl", "mat", "mbarlow", "met", "mixup", "mmhe", "mmhs", "mpt", "mvicreg", "paradigm"),
    "triplet",
)
# Settings that came later do not enter an id where they have these values, which are what the objectives did before.
ADDED_SETTINGS = {"pool": "cross", "distance": "cosine", "hardness": 0.0, "anchors": "both"}


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    id: str
    stage: Stage
    objective: str  # its label; "untrained" for the encoder as it was given
    trial: int  # which setting; the first is the default
    seed: int
    settings: dict[str, Any]  # recipe key → value, for the tuned or crossed keys
    recipe: Recipe

    def __str__(self) -> str:
        settings = ", ".join(f"{key.removeprefix('objective.')} {shown(value)}" for key, value in self.settings.items())
        return f"{self.objective}, seed {self.seed}" + (f" ({settings})" if settings else "")


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Plan:
    """All cells of a study. The cells of the test stage exist once the settings are chosen."""

    def __init__(self, study: Study, sources: Mapping[str, str] | None = None) -> None:
        self.study = study
        self._tests: dict[tuple[str, int], list[Cell]] = {}
        self._stages: dict[tuple[str, int, str], list[Cell]] = {}
        self._bases: dict[str, Recipe] = {}
        self.sources = dict(sources or {})  # of objectives that are classes of this process: name → hash
        self.spaces: dict[str, dict[str, Range | Choice]] = {
            label_of(each): space_of(study, each) for each in study.objectives
        }
        self.stages = {label_of(each): stages_of(study, each) for each in study.objectives} if study.stages else {}
        for key in [key for stage in study.stages for key in stage]:
            if not any(key in stage for stages in self.stages.values() for stage in stages):
                raise ValueError(f"the stages have {key}, which no objective of the study has to tune")
        recipes = [self._base(each) for each in study.objectives]
        self.metric = metric_of(recipes[0], study.metric)
        self.first_seed = recipes[0].seed

    @property
    def test_seeds(self) -> range:
        """Fresh seeds: none of them has been used for tuning."""
        return range(self.first_seed + 1, self.first_seed + 1 + self.study.seeds)

    @cached_property
    def untrained(self) -> list[Cell]:
        """The encoder as it was given, with each seed's weights and split."""
        objective = self.study.objectives[0]
        return [self._cell("untrained", objective, 0, seed, {"steps": 0}) for seed in self.test_seeds]

    @cached_property
    def tuning(self) -> list[Cell]:
        """Every setting of every objective once, all first trials first. A search in stages gives its first stage."""
        if self.study.grid:
            return []
        if self.study.stages:
            return [cell for objective in self.study.objectives for cell in self.stage(objective, 0, {})]
        return [
            self.trial(objective, number, settings)
            for number in range(self.study.trials)
            for objective in self.study.objectives
            for settings in [self.settings(objective, number)]
            if number == 0 or settings  # with nothing to tune, one run is enough
        ]

    def stage(self, objective: Mapping[str, Any], number: int, best: Mapping[str, Any]) -> list[Cell]:
        """All points of a stage's grid, over the best setting of the stage before."""
        known = (label_of(objective), number, json.dumps(dict(best)))
        if known not in self._stages:  # asked for again and again while a study runs
            stages, recipe = self.stages[label_of(objective)], self._base(objective)
            values = {key: _of_its_kind(read_key(recipe, key), each) for key, each in stages[number].items()}
            first = sum(map(_points, stages[:number]))
            self._stages[known] = [
                self.trial(objective, first + index, {**best, **dict(zip(values, point, strict=True))})
                for index, point in enumerate(itertools.product(*values.values()))
            ]
        return self._stages[known]

    def trials(self, objective: Mapping[str, Any]) -> int:
        """Number of settings tried for an objective, over all stages."""
        label = label_of(objective)
        if self.study.stages:
            return sum(map(_points, self.stages[label]))
        return sum(cell.objective == label for cell in self.tuning)

    def trial(self, objective: Mapping[str, Any], number: int, settings: Mapping[str, Any]) -> Cell:
        """One setting of an objective, judged on validation data."""
        return self._cell("tuning", objective, number, self.first_seed, settings)

    def given(self, objective: Mapping[str, Any]) -> Cell:
        """The objective with the settings it was given, where nothing is tuned."""
        return self.trial(objective, 0, {})

    def settings(self, objective: Mapping[str, Any], trial: int) -> dict[str, float]:
        """The settings of a trial: the first has the defaults, the others spread evenly over the ranges."""
        space = self.spaces[label_of(objective)]
        if trial == 0 or not space:
            return {}
        recipe = self._base(objective)
        point = evenly_spread(trial, len(space))
        return {
            key: round(span.at(share)) if isinstance(read_key(recipe, key), int) else float(f"{span.at(share):.4g}")
            for (key, span), share in zip(space.items(), point, strict=True)
        }

    def test(self, objective: Mapping[str, Any], chosen: Cell) -> list[Cell]:
        """The chosen setting with fresh seeds; only these runs see the test set."""
        known = (chosen.objective, chosen.trial)
        if known not in self._tests:  # asked for again and again while a study runs
            self._tests[known] = [
                self._cell("test", objective, chosen.trial, seed, chosen.settings) for seed in self.test_seeds
            ]
        return self._tests[known]

    @cached_property
    def grid(self) -> list[Cell]:
        """Every point of the grid, for every objective and seed."""
        points = [
            dict(zip(self.study.grid, values, strict=True)) for values in itertools.product(*self.study.grid.values())
        ]
        return [
            self._cell("grid", objective, number, seed, point)
            for seed in self.test_seeds
            for number, point in enumerate(points)
            for objective in self.study.objectives
        ] if self.study.grid else []  # fmt: skip

    @cached_property
    def begin(self) -> list[Cell]:
        """The cells that can run at once."""
        return [*self.untrained, *self.tuning, *self.grid]

    def count(self) -> int:
        """Number of all runs, including later stages and the test."""
        if self.study.grid:
            return len(self.begin)
        return len(self.untrained) + sum(self.trials(each) + self.study.seeds for each in self.study.objectives)

    def seconds(self) -> float | None:
        """Estimated time of all runs one after another, from the minutes the recipe names; None if it names none."""
        recipe = self.study.base(self.study.objectives[0])
        if recipe.about.minutes is None:
            return None
        trained = self.count() - len(self.untrained)
        original = shipped_steps(self.study.recipe)
        share = 1.0 if not original or not recipe.steps else recipe.steps / original
        return 60 * recipe.about.minutes * share * trained

    def _base(self, objective: Mapping[str, Any]) -> Recipe:
        label = label_of(objective)
        if label not in self._bases:
            self._bases[label] = self.study.base(objective)
        return self._bases[label]

    def _cell(
        self, stage: Stage, objective: Mapping[str, Any], trial: int, seed: int, settings: Mapping[str, Any]
    ) -> Cell:
        words = [f"{key}={json.dumps(value)}" for key, value in settings.items() if not key.startswith("objective.")]
        words += [f"seed={seed}", f"evaluation.test={json.dumps(stage != 'tuning')}", "loggers=[]"]
        full = with_settings(objective, settings, self._base(objective))
        recipe = self.study.base(full, words)
        label = UNTRAINED if stage == UNTRAINED else label_of(objective)
        source = self.sources.get(str(objective["name"]), "")
        return Cell(cell_id(recipe, source), stage, label, trial, seed, dict(settings), recipe)


def _points(stage: Mapping[str, list[float]]) -> int:
    """Number of points in a stage's grid."""
    return math.prod(map(len, stage.values()))


def _of_its_kind(default: Any, values: list[float]) -> list[float]:
    """The values as whole numbers if the default is a whole number."""
    return [round(value) if isinstance(default, int) else value for value in values]


def cell_id(recipe: Recipe, source: str = "") -> str:
    """The hash of everything that affects a run's result; ``source``: the source hash of an objective in no file."""
    tree = recipe.model_dump(exclude_defaults=True, exclude={"output", "about", "loggers"})  # a new key changes no id
    tree["objective"] = _as_recorded(recipe.resolved()["objective"])
    tree["files"] = [*sorted(fingerprints(recipe.objective).values()), source]  # of the user's own objective
    if recipe.steps == 0:
        del tree["objective"], tree["files"]  # the untrained encoder is the same for all objectives
    return digest(tree)


def _as_recorded(objective: dict[str, Any]) -> dict[str, Any]:
    """An objective's settings, and those of its base, as they enter an id."""
    known = {key: _as_recorded(value) if key == "base" and isinstance(value, dict) else value
             for key, value in objective.items() if ADDED_SETTINGS.get(key) != value}  # fmt: skip
    return known | {"variant": "paper"} if objective["name"] in HAD_A_VARIANT else known


def evenly_spread(index: int, dimensions: int) -> list[float]:
    """A point of an infinite sequence that fills the unit cube evenly (Roberts' R-sequence).

    Each objective gets the same points, so none has a luckier draw. More trials only add points.

    >>> [round(evenly_spread(k, 1)[0], 3) for k in (1, 2, 3)]
    [0.118, 0.736, 0.354]
    """
    ratio = _generalised_golden_ratio(dimensions)
    return [(0.5 + index * ratio ** -(axis + 1)) % 1 for axis in range(dimensions)]


@lru_cache
def _generalised_golden_ratio(dimensions: int) -> float:
    """The positive root of x^(d+1) = x + 1."""
    x = 2.0
    for _ in range(64):
        x = (1 + x) ** (1 / (dimensions + 1))
    return x


def shipped_steps(source: str) -> int | None:
    """The number of steps to which a recipe's minutes refer."""
    return read_recipe(source).steps


def unique(cells: Iterable[Cell]) -> list[Cell]:
    """The cells without duplicates, in their order."""
    return list({cell.id: cell for cell in cells}.values())
