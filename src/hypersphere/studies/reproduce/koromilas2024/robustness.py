"""Koromilas et al. 2024: best and worst accuracy of SimCLR, DCL, DHEL and KCL over temperatures and batch sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypersphere.figures.accuracy import Curve, draw_grid
from hypersphere.studies.compare.results import Comparison
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import Scores, above, summary
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.koromilas2024.accuracies import (
    ABSTRACT,
    CHALLENGERS,
    CHANCE,
    DECIDING,
    LABELS,
    NAMES,
    NO_NUMBERS,
    Decisions,
    accuracies,
    best_of,
    by_chance,
    contrasted,
    counted,
    described,
    ends,
    family,
    interval,
    mean_over,
    means_table,
    settings,
    short,
    signed,
    spread_of_means,
    spread_over,
    trained_well,
    untrained,
    worst_of,
    worst_over,
)

Point = tuple[float, int]  # temperature (KCL: t), batch size
Grid = dict[str, dict[Point, Scores]]  # objective → point → accuracy by seed


def robustness(held: Mapping[str, Held]) -> Finding:
    """Best and worst accuracy over temperatures and batch sizes."""
    comparison = held["koromilas-robustness"].comparison
    by_score = {name: _points(comparison, name) for name in LABELS}
    points = by_score[DECIDING]
    clauses = _clauses(points)
    spreads = {name: spread_over(list(each.values())) for name, each in points.items()}
    means = {name: mean_over(list(each.values())) for name, each in points.items()}
    worst = {name: worst_over(list(each.values())) for name, each in points.items()}
    others = "; ".join(
        f"{LABELS[name]}: {counted(_clauses(each))}" for name, each in by_score.items() if name != DECIDING
    )
    failed = sum(run.state == "failed" for row in comparison.contestants for run in row.runs)
    return Finding(
        claim=f"{ABSTRACT} The README of the authors' repository says that DHEL and KCL \"demonstrate robustness "
        f'against hyperparameters". {NO_NUMBERS}',
        measured="Linear probe with all labels over temperatures τ (KCL: t, which does the work of 1/(2τ)) and batch "
        f"sizes. Best minus worst point, SimCLR's subtracted, paired by seed: {_against_simclr(spreads)}. Mean over "
        f"all points: {_against_simclr(means)}. Worst point: {_against_simclr(worst)}. Runs that failed count as "
        f"{CHANCE:g} %: {failed}. The same clauses by the other scores: {others}. {by_chance(clauses)} "
        f"{_table(points)}",
        clauses=clauses,
        data={
            "accuracy": [row for name, each in by_score.items() for row in _accuracy_rows(name, each)],
            "spread": [row for name, each in by_score.items() for row in _spread_rows(name, each)],
        },
        figures={
            "robustness": draw_grid(
                {NAMES[name]: (_setting(name), _curves(each)) for name, each in points.items()},
                [interval(NAMES[name], each) for name, each in spreads.items()],
            )
        },
        published="no number; the abstract: robust across batch sizes and hyperparameters",
        here=f"best minus worst: {short(spreads)}",
        fault=_fault(comparison, points, clauses),
    )


def _setting(name: str) -> str:
    return "t of the kernel" if name == "kcl" else "temperature τ"


def _points(comparison: Comparison, name: str) -> Grid:
    """Every objective at every planned point; empty scores for missing runs."""
    points: Grid = {each: {} for each in NAMES}
    for label in comparison.plan.study.labels:
        for size in sorted(comparison.plan.study.grid["batch.size"]):
            points[family(label)][_value(label), size] = {}
    for row in comparison.contestants:
        own = points.get(family(row.objective), {})
        point = (_value(row.objective), row.point.get("batch.size", 0))
        if point in own:
            own[point] = accuracies(row, name)
    return points


def _value(label: str) -> float:
    given = settings(label)
    return float(given.get("temperature", given.get("t", "nan")))


def _clauses(points: Grid) -> Decisions:
    lists = {name: list(each.values()) for name, each in points.items()}
    clauses: Decisions = {}
    for new in CHALLENGERS:
        words = f"{NAMES[new]} has a smaller best-to-worst spread than SimCLR"
        clauses[words] = above(spread_over(lists["ntxent"]), spread_over(lists[new]))
    for new in CHALLENGERS:
        words = f"{NAMES[new]} is above SimCLR, mean over temperatures and batch sizes"
        clauses[words] = above(mean_over(lists[new]), mean_over(lists["ntxent"]))
    return clauses


def _against_simclr(values: Mapping[str, Scores]) -> str:
    said = [f"{NAMES[name]} {signed(values[name], values['ntxent'])}" for name in NAMES if name != "ntxent"]
    return ", ".join(said)


def _table(points: Grid) -> str:
    columns = ("best − worst", "over temperature", "over batch size", "mean", "worst")
    rows = {
        NAMES[name]: [
            *(_spread(own, over) for over in ("both", "temperature", "batch")),
            mean_over(list(own.values())),
            worst_over(list(own.values())),
        ]
        for name, own in points.items()
    }
    return means_table(columns, rows)


def _accuracy_rows(score: str, points: Grid) -> list[dict[str, Any]]:
    return [
        {"score": score, "objective": NAMES[name], "setting": _setting(name), "value": value, "batch": size}
        | described(values)
        for name, each in points.items()
        for (value, size), values in each.items()
    ]


def _spread_rows(score: str, points: Grid) -> list[dict[str, Any]]:
    """Over both settings, over one with the other held (then averaged), and the difference from SimCLR."""
    rows = []
    for over in ("both", "temperature", "batch"):
        spreads = {name: _spread(each, over) for name, each in points.items()}
        for name, each in points.items():
            against = contrasted(spreads[name], spreads["ntxent"])
            rows.append(
                {"score": score, "objective": NAMES[name], "over": over}
                | described(spreads[name])
                | {"of_means": spread_of_means(list(each.values())) if over == "both" else None}
                | {f"minus_simclr_{key}": against[key] for key in ("difference", "low", "high")}
            )
    return rows


def _spread(points: Mapping[Point, Scores], over: str) -> dict[int, float]:
    if over == "both":
        return spread_over(list(points.values()))
    held = 1 if over == "temperature" else 0
    groups: dict[float, list[Scores]] = {}
    for point, values in points.items():
        groups.setdefault(point[held], []).append(values)
    return mean_over([spread_over(each) for each in groups.values()])


def _curves(points: Mapping[Point, Scores]) -> list[Curve]:
    sizes = sorted({size for _, size in points})
    return [
        Curve(f"batch size {wanted}", [(x, *ends(own)) for (x, size), own in sorted(points.items(), key=_place)
                                       if size == wanted and own])
        for wanted in sizes
    ]  # fmt: skip


def _place(item: tuple[Point, Scores]) -> Point:
    return item[0]


def _fault(comparison: Comparison, points: Grid, clauses: Decisions) -> str:
    if False not in clauses.values():
        return ""
    best = {name: point for name, each in points.items() if (point := best_of(each)) is not None}
    parts = [trained_well({name: points[name][point] for name, point in best.items()}, untrained(comparison, DECIDING))]
    said = [f"{NAMES[name]} {_where(points[name], best[name])} and {_where(points[name], worst_of(points[name]))}"
            for name in best]  # fmt: skip
    parts.append(f"Scale or claim: best and worst points (temperature or t, batch size) are {'; '.join(said)}.")
    shares = [
        f"{NAMES[name]} {short({'temperature': _spread(each, 'temperature'), 'batch size': _spread(each, 'batch')})}"
        for name, each in points.items()
    ]
    parts.append(
        f"Spread over one setting with the other held: {'; '.join(shares)}. The batch sizes differ in their number of "
        "steps as well, so the spread over temperature speaks on the claim, that over the batch size on the scale too."
    )
    return " ".join(parts)


def _where(points: Mapping[Point, Scores], point: Point | None) -> str:
    estimate = summary(points[point]) if point is not None else None
    return (
        f"{estimate.mean:.1f} at ({point[0]:g}, {point[1]})"
        if estimate is not None and point is not None
        else "not measured"
    )
