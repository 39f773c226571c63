"""A study: the compared objectives, the settings tuned for each, and the settings fixed for all."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator

from hypersphere.documents import expand, read_yaml
from hypersphere.messages import quoted
from hypersphere.names import did_you_mean
from hypersphere.objectives import files
from hypersphere.training.load import read_recipe, shipped
from hypersphere.training.recipe import Recipe
from hypersphere.training.sections import Count, Part, Whole

MOST_RUNS = 50_000
PER_CONTESTANT = ("seed", "output", "objective")  # keys that a study sets itself

Span = Annotated[list[float], Field(min_length=2)]  # low and high; three or more values: only these


class Study(Part):
    """A comparison as it is written down; ``compare`` makes one from its arguments."""

    recipe: str = Field(description="a YAML file or a shipped recipe: encoder, data, batch, steps, the same for all")
    changes: list[str] = Field(
        [], description="key=value words, or a mapping of keys to values, over the recipe, the same for all"
    )
    objectives: list[dict[str, Any]] = Field(
        description="names, or mappings with a name and settings that are not tuned; at least one"
    )
    reference: str = Field("", description="the objective that the others are compared with; default: the first")
    trials: Whole = Field(
        8,
        description="settings tried for each objective; the first is its default; 0: no tuning, all as given",
    )
    seeds: Count = Field(5, description="runs of each objective's best setting, with fresh seeds")
    tune: dict[str, Span] | None = Field(
        None,
        description="recipe keys tuned for every objective: [low, high], or three values or more to choose from; "
        "default: optimizer.lr, a decade each way",
    )
    ranges: dict[str, dict[str, Span]] = Field({}, description="objective → setting → [low, high] or values")
    stages: list[dict[str, Annotated[list[float], Field(min_length=1)]]] = Field(
        [],
        description="grids of recipe keys, searched one after the other in place of trials: the best setting of a grid "
        "on validation data holds in the next",
    )
    grid: dict[str, list[Any]] = Field({}, description="recipe keys crossed instead of tuned: every point, every seed")
    metric: str = Field("", description="the score that decides; default: the one the recipe's task has")
    keep_models: bool = Field(True, description="keep the trained weights of every run; false: its numbers alone")
    output: str = Field("", description="the study's folder; default: studies/ and the recipe's name")

    @field_validator("changes", mode="before")
    @classmethod
    def _as_words(cls, given: Any) -> Any:
        return [f"{key}={json.dumps(value)}" for key, value in given.items()] if isinstance(given, dict) else given

    @field_validator("changes")
    @classmethod
    def _same_for_all(cls, words: list[str]) -> list[str]:
        keys = [_key(word) for word in words]
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f"{key} is given twice among the changes")
            if key.partition(".")[0] == "objective":
                raise ValueError(
                    f"{key} among the changes would be the same for all objectives: give it with an objective, as in "
                    "{name: mpt, margin: 0.3}"
                )
            if key == "output":
                raise ValueError("output among the changes is a run's folder: the study's own is --output")
        return words

    @field_validator("objectives", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        listed = given.split(",") if isinstance(given, str) else given
        if not isinstance(listed, list):
            return given
        return [{"name": each.strip()} if isinstance(each, str) else each for each in listed]

    @model_validator(mode="after")
    def _complete(self) -> Study:
        if not self.objectives:
            raise ValueError("a study has at least one objective (objectives: [ntxent, dhel])")
        for each in self.objectives:
            if not each.get("name"):
                raise ValueError("an objective of a study is a name, or a mapping with a name")
        labels = [label_of(each) for each in self.objectives]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"the objective {label} stands twice in the study")
        if self.reference and self.reference not in labels:
            raise ValueError(f"the reference {self.reference}{did_you_mean(self.reference, labels)} is not among the "
                             f"objectives ({', '.join(labels)})")  # fmt: skip
        for label in self.ranges:
            if label not in labels:
                raise ValueError(f"ranges are given for {label}{did_you_mean(label, labels)}, which is not among the "
                                 f"objectives ({', '.join(labels)})")  # fmt: skip
        if not self.trials and (self.tune is not None or self.ranges):
            raise ValueError("a study without trials tunes nothing, and ranges to tune in are given")
        if self.grid and (self.tune is not None or self.ranges):
            raise ValueError("a study has either a grid or ranges to tune in, and both are given")
        if self.stages and (self.grid or self.tune is not None or self.ranges):
            raise ValueError("a study that searches in stages has its values there, and a grid or ranges are given too")
        for stage in self.stages:
            for key, numbers in stage.items():
                if len(set(numbers)) < len(numbers):
                    raise ValueError(f"a stage has a value of {key} twice")
        for key, values in self.grid.items():
            if not values:
                raise ValueError(f"the grid has no values for {key}, so the study has no cells")
            if len({json.dumps(value) for value in values}) < len(values):
                raise ValueError(f"the grid has a value of {key} twice")
        for key in (*(self.tune or {}), *self.grid, *(key for stage in self.stages for key in stage)):
            if key in (*PER_CONTESTANT, "objective.name"):
                raise ValueError(f"{key} is set by the study itself and cannot be tuned or crossed")
        trials = sum(math.prod(map(len, stage.values())) for stage in self.stages) or self.trials
        points = math.prod(map(len, self.grid.values())) * self.seeds if self.grid else trials + self.seeds
        if len(self.objectives) * points > MOST_RUNS:
            raise ValueError(
                f"the study has {len(self.objectives) * points:,} runs; more than {MOST_RUNS:,} are not begun"
            )
        if "\0" in self.output:
            raise ValueError("the study's folder has a name that no folder can have")
        try:
            expand(self.output)
        except FileNotFoundError as error:  # a missing home folder
            raise ValueError(str(error)) from None
        for where, values in self._all_ranges():
            if len(values) == 2 and not values[0] < values[1]:
                raise ValueError(f"the range of {where} is empty: {values[0]:g} to {values[1]:g}")
            if len(set(values)) < len(values):
                raise ValueError(f"the values of {where} hold one of them twice")
        return self

    def _all_ranges(self) -> Iterable[tuple[str, list[float]]]:
        yield from (self.tune or {}).items()
        for label, of in self.ranges.items():
            for key, values in of.items():
                yield f"{label}'s {key}", values

    @property
    def tunes(self) -> bool:
        """Whether settings are chosen on validation data."""
        return not self.grid and bool(self.stages or self.trials)

    @property
    def labels(self) -> list[str]:
        return [label_of(each) for each in self.objectives]

    @property
    def first(self) -> str:
        """The reference."""
        return self.reference or self.labels[0]

    def base(self, objective: Mapping[str, Any], words: Iterable[str] = ()) -> Recipe:
        """The recipe with an objective at the recipe's own or its default settings."""
        words = list(words)
        given = [f"objective={json.dumps(dict(objective))}", *self.changes, *words]
        last = {word.partition("=")[0]: word for word in given}  # keys that the study sets itself override its changes
        if any(word.startswith("steps=") for word in words):
            last.pop("epochs", None)
        return read_recipe(self.recipe, last.values())

    def fingerprint(self) -> dict[str, Any]:
        """The parts that must stay the same while a study goes on; objectives, trials and seeds may be added."""
        fixed = self.base(self.objectives[0]).model_dump(exclude={"objective", "output", "about", "seed", "loggers"})
        search = {"stages": self.stages} if self.stages else {}
        return {"recipe": fixed, "tune": self.tune, "grid": self.grid, "metric": self.metric, **search}


def label_of(objective: Mapping[str, Any]) -> str:
    """The objective's name, with the settings that were given.

    >>> label_of({"name": "ntxent"}), label_of({"name": "mpt", "margin": 0.3})
    ('ntxent', 'mpt margin=0.3')
    """
    settings = [f"{key}={_short(value)}" for key, value in objective.items() if key != "name"]
    name = str(objective["name"])
    return " ".join([name.rpartition("/")[2] if files.split(name) else name, *settings])


def _short(value: Any) -> str:
    return label_of(value).replace(" ", ",") if isinstance(value, Mapping) and "name" in value else str(value)


def read_study(source: str, words: Iterable[str] = (), **given: Any) -> Study:
    """A study from a YAML file that has ``objectives``, a shipped one by name (demo), or from a recipe and arguments;
    given arguments override the file."""
    path = shipped_studies().get(source) or expand(source)
    given = {key: value for key, value in given.items() if value is not None}
    tree: dict[str, Any] = {"recipe": source}
    if path.is_file() and source not in shipped():
        document = read_yaml(path)
        if isinstance(document, dict) and "objectives" in document:
            tree = document
            recipe = path.parent / str(tree.get("recipe", ""))
            if recipe.is_file():  # beside the study
                tree["recipe"] = str(recipe)
            tree.setdefault("output", f"studies/{path.stem}")
    tree.setdefault("output", f"studies/{Path(str(tree.get('recipe', 'study'))).stem}")
    tree |= given
    words = list(words)
    twice = [key for key, count in Counter(map(_key, words)).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]} is given twice among the words after the recipe")
    given_first = tree.get("changes", [])
    if isinstance(given_first, dict):
        given_first = [f"{key}={json.dumps(value)}" for key, value in given_first.items()]
    if not isinstance(given_first, list):
        raise ValueError(f"changes is {quoted(given_first)}: it should be a list of key=value words, or a mapping")
    before = [word for word in given_first if _key(word) not in {_key(each) for each in words}]
    tree["changes"] = [*before, *words]
    return parse_study(tree)


def _key(word: Any) -> str:
    return str(word).partition("=")[0]


def shipped_studies() -> dict[str, Path]:
    """The studies that come with the package, by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "shipped").glob("*.yaml"))}


def parse_study(tree: Mapping[str, Any]) -> Study:
    """A study from a mapping; the first mistake becomes an error of one sentence."""
    try:
        return Study.model_validate(dict(tree))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(each) for each in first["loc"])
        if first["type"] == "extra_forbidden":
            raise ValueError(f"a study has no key {key}{did_you_mean(key, Study.model_fields)}") from None
        if first["type"] == "missing":
            raise ValueError(f"a study needs {key}: {Study.model_fields[key].description}") from None
        words = first["msg"].removeprefix("Value error, ")
        raise ValueError(
            f"{key} is {quoted(first['input'])}: {words.replace('Input', 'it')}" if key else words
        ) from None


def digest(tree: Any) -> str:
    """A short name for a tree of plain values: the same for the same content."""
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
