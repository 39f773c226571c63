"""The results of a study: a row for each contestant, differences, groups, and everything a report needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hypersphere.studies.compare import statistics
from hypersphere.studies.compare.cells import UNTRAINED, Cell, Plan, shown
from hypersphere.studies.compare.choice import choose, tuned
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.scores import test_score, validation_score
from hypersphere.studies.compare.space import Choice, read_key
from hypersphere.studies.compare.statistics import Difference, Scores, Summary
from hypersphere.studies.compare.study import label_of
from hypersphere.training.load import write_recipe
from hypersphere.training.recipe import Recipe

AT_BOUND = 0.1  # a chosen value in the outer tenth of its range counts as at its bound


@dataclass(frozen=True)
class Run:
    """One run: a line of results.csv."""

    contestant: str
    stage: str
    trial: int
    seed: int
    settings: dict[str, Any]
    cell: str
    state: str  # done, failed, waiting, running
    reason: str
    validation: float | None
    test: float | None
    result: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Row:
    """A contestant: an objective at its chosen setting or at a point of the grid, or the untrained encoder."""

    name: str
    objective: str
    point: dict[str, Any]  # of the grid
    settings: dict[str, Any]  # the chosen ones
    tuning: list[Run]
    runs: list[Run]  # with fresh seeds
    recipe: str  # to copy
    at_bound: dict[str, str]  # chosen settings at the end of their range: key → sentence

    @cached_property
    def test(self) -> dict[int, float]:
        """Test scores by seed."""
        return {run.seed: run.test for run in self.runs if run.test is not None}

    @cached_property
    def summary(self) -> Summary | None:
        return statistics.summarise(list(self.test.values())) if self.test else None

    @cached_property
    def tuned(self) -> float | None:
        """The best validation score of tuning, by which the setting was chosen."""
        return max((run.validation for run in self.tuning if run.validation is not None), default=None)

    @cached_property
    def validation(self) -> float | None:
        """Mean validation score of the runs with fresh seeds: the score of the choice without its luck."""
        values = [run.validation for run in self.runs if run.validation is not None]
        return sum(values) / len(values) if values else None

    @cached_property
    def seconds(self) -> float | None:
        return _mean([run.result.get("seconds") for run in self.runs])

    @cached_property
    def memory(self) -> float | None:
        """Peak memory of a run in MB."""
        return max((run.result["memory"] for run in self.runs if run.result.get("memory")), default=None)

    @cached_property
    def expected_best(self) -> list[float]:
        """Expected best validation score after k = 1 … n trials."""
        values = [run.validation for run in self.tuning if run.validation is not None]
        return statistics.expected_best(values) if values else []

    def measured(self, quantity: str, last: bool = True) -> float | None:
        """Mean over seeds of a quantity that the monitor measured at the end, or at the start, of the runs."""
        series = [[each for each in run.result.get("measured", []) if quantity in each] for run in self.runs]
        return _mean([each[-1 if last else 0][quantity] for each in series if each])


@dataclass(frozen=True)
class Comparison:
    """A study and its results so far."""

    plan: Plan
    rows: list[Row]

    @property
    def reference(self) -> str:
        return self.plan.study.first

    @property
    def metric(self) -> str:
        return self.plan.metric

    @cached_property
    def by_name(self) -> dict[str, Row]:
        return {row.name: row for row in self.rows}

    @cached_property
    def contestants(self) -> list[Row]:
        """Rows that were trained."""
        return [row for row in self.rows if row.name != UNTRAINED]

    @cached_property
    def scores(self) -> Scores:
        return {row.name: row.test for row in self.contestants}

    @cached_property
    def ranking(self) -> list[Row]:
        """All rows, best first; the untrained encoder is ranked among them."""
        return [self.by_name[name] for name in statistics.ranking({row.name: row.test for row in self.rows})]

    @cached_property
    def differences(self) -> list[Difference]:
        """Every contestant against the reference; in a grid, at the same point of it."""
        if not self.plan.study.grid:
            return statistics.compare_with(self._with_scores, self.reference) if self._has_reference else []
        pairs = [
            (row.name, _grid_name(self.reference, row.point))
            for row in self.contestants
            if row.objective != self.reference
        ]
        known = self._with_scores
        return statistics.differences(known, [pair for pair in pairs if all(name in known for name in pair)])

    @cached_property
    def pairs(self) -> list[Difference]:
        return statistics.compare_all(self._with_scores) if not self.plan.study.grid else []

    @cached_property
    def groups(self) -> list[list[str]]:
        """Contestants that cannot be told apart."""
        return statistics.groups(self._with_scores, self.pairs) if not self.plan.study.grid else []

    @cached_property
    def gain(self) -> Difference | None:
        """The best contestant against the untrained encoder."""
        untrained = self.by_name[UNTRAINED].test
        best = next((row for row in self.ranking if row.name != UNTRAINED and row.test), None)
        if best is None or not untrained:
            return None
        return statistics.compare_with({best.name: best.test, UNTRAINED: untrained}, UNTRAINED)[0]

    @cached_property
    def failures(self) -> list[Run]:
        return [run for row in self.rows for run in (*row.tuning, *row.runs) if run.state == "failed"]

    @cached_property
    def complete(self) -> bool:
        runs = [run for row in self.rows for run in (*row.tuning, *row.runs)]
        expected = self.plan.count()
        return len(runs) >= expected - self._never() and all(run.state in ("done", "failed") for run in runs)

    def _never(self) -> int:
        """Number of runs that never come: later stages and test runs of objectives without a scored trial so far."""
        study = self.plan.study
        if study.grid:
            return 0
        by_label = {label_of(each): self.plan.trials(each) for each in study.objectives}
        return sum(
            study.seeds + by_label[row.name] - len(row.tuning)
            for row in self.contestants
            if not row.runs and all(run.state == "failed" for run in row.tuning)
        )

    @property
    def _with_scores(self) -> Scores:
        return {name: scores for name, scores in self.scores.items() if scores}

    @property
    def _has_reference(self) -> bool:
        return bool(self.scores.get(self.reference))


def collect(plan: Plan, attempts: Mapping[str, Attempt]) -> Comparison:
    """The rows of a study from the attempts at its cells."""

    def run(cell: Cell, name: str) -> Run:
        attempt = attempts.get(cell.id) or Attempt(-1, "waiting", "", None)
        result = attempt.result or {}
        validation = validation_score(result, plan.metric) if result else None
        test = test_score(result, plan.metric) if result else None
        return Run(name, cell.stage, cell.trial, cell.seed, cell.settings, cell.id, attempt.state, attempt.reason,
                   validation, test, result)  # fmt: skip

    untrained = Row(UNTRAINED, UNTRAINED, {}, {}, [], [run(cell, UNTRAINED) for cell in plan.untrained],
                    write_recipe(plan.untrained[0].recipe), {})  # fmt: skip
    return Comparison(plan, [untrained, *(_grid_rows(plan, run) if plan.study.grid else _rows(plan, attempts, run))])


def _rows(plan: Plan, attempts: Mapping[str, Attempt], run: Any) -> list[Row]:
    chosen = {cell.objective: (objective, cell) for objective, cell in choose(plan, attempts)}
    rows = []
    for objective in plan.study.objectives:
        label, tuning = label_of(objective), tuned(plan, objective, attempts)
        best = chosen.get(label)
        cells = plan.test(*best) if best else []
        settings = best[1].settings if best else {}
        example = (cells or tuning)[0]
        rows.append(
            Row(label, label, {}, settings, [run(cell, label) for cell in tuning], [run(cell, label) for cell in cells],
                write_recipe(example.recipe), _at_bound(plan, label, settings, example.recipe))
        )  # fmt: skip
    return rows


def _grid_rows(plan: Plan, run: Any) -> list[Row]:
    by_name: dict[str, list[Cell]] = {}
    for cell in plan.grid:
        by_name.setdefault(_grid_name(cell.objective, cell.settings), []).append(cell)
    return [
        Row(name, cells[0].objective, cells[0].settings, {}, [], [run(cell, name) for cell in cells],
            write_recipe(cells[0].recipe), {})
        for name, cells in by_name.items()
    ]  # fmt: skip


def _grid_name(objective: str, point: Mapping[str, Any]) -> str:
    return f"{objective}, " + ", ".join(f"{key} {shown(value)}" for key, value in point.items())


def _at_bound(plan: Plan, label: str, settings: Mapping[str, Any], recipe: Recipe) -> dict[str, str]:
    said = {}
    for key, span in plan.spaces[label].items():
        value = settings.get(key, read_key(recipe, key))
        if isinstance(span, Choice) and value not in span.values:
            continue  # the default, which is not among the values
        share = span.share(value)
        if not AT_BOUND <= share <= 1 - AT_BOUND:
            end = "lower" if share < 0.5 else "upper"
            said[key] = f"{label}'s {key.removeprefix('objective.')} {shown(value)} lies at the {end} end of " \
                        f"its range ({span}): a wider range may have better values"  # fmt: skip
    return said


def _mean(values: list[Any]) -> float | None:
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if known else None
