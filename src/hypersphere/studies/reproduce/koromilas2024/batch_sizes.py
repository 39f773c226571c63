"""Koromilas et al. 2024: accuracy of SimCLR, DCL, DHEL and KCL against the batch size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypersphere.figures.accuracy import Curve, draw_batch_sizes
from hypersphere.studies.compare.results import Comparison
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import Scores, above
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.koromilas2024 import lee2025
from hypersphere.studies.reproduce.koromilas2024.accuracies import (
    ABSTRACT,
    CHALLENGERS,
    DECIDING,
    LABELS,
    NAMES,
    NO_NUMBERS,
    PAIRS,
    Decisions,
    accuracies,
    best_of,
    by_chance,
    contrasted,
    counted,
    described,
    differences,
    ends,
    family,
    interval,
    mean_over,
    means_table,
    short,
    spread_over,
    trained_well,
    untrained,
)

Batches = dict[str, dict[int, Scores]]  # objective → batch size → accuracy by seed
COMBINED: dict[str, Callable[[list[Scores]], dict[int, float]]] = {"mean": mean_over, "spread": spread_over}
AT_SMALLEST = "at the smallest batch"
LESS = "depends on the batch size less than SimCLR (best minus worst)"


def batch_size(held: Mapping[str, Held]) -> Finding:
    """Accuracy of four objectives against the batch size."""
    comparison = held["koromilas-batch"].comparison
    by_score = {name: _points(comparison, name) for name in LABELS}
    points = by_score[DECIDING]
    clauses = _clauses(points)
    smallest = min(_sizes(comparison))
    first = {name: each[smallest] for name, each in points.items()}
    whole, spreads = _over(points, "mean"), _over(points, "spread")
    others = "; ".join(
        f"{LABELS[name]}: {counted(_clauses(each))}" for name, each in by_score.items() if name != DECIDING
    )
    return Finding(
        claim=f"{ABSTRACT} The README of the authors' repository says that DHEL and KCL \"outperform other InfoNCE "
        f'variants, such as SimCLR and DCL, even with smaller batch sizes". {NO_NUMBERS}',
        measured=f"Linear probe with all labels, one setting of each objective for all batch sizes. Differences paired "
        f"by seed, mean over batch sizes: {differences(whole)}. At a batch of {smallest}: {differences(first)}. Best "
        f"minus worst batch size: {differences(spreads)}. The same clauses by the other scores: {others}. "
        f"{by_chance(clauses)} {lee2025.about_dhel()}. {_table(points)}",
        clauses=clauses,
        data={
            "accuracy": [row for name, each in by_score.items() for row in _accuracy_rows(name, each)],
            "differences": [row for name, each in by_score.items() for row in _difference_rows(name, each)],
            "third-party": lee2025.rows(),
        },
        figures={
            "batch-size": draw_batch_sizes(
                {LABELS[name]: _curves(each) for name, each in by_score.items()},
                [interval(NAMES[name], each) for name, each in spreads.items()],
                lee2025.curves(),
            )
        },
        published="no number; Lee et al. 2025 (third party), batch 32: "
        + ", ".join(f"{NAMES[name]} {values[0]}" for name, values in lee2025.TOP1["CIFAR-10"].items()),
        here=f"batch {smallest}: {short(first)}; spread: {short(spreads)}",
        fault=_fault(comparison, points, clauses),
    )


def _sizes(comparison: Comparison) -> list[int]:
    return sorted(comparison.plan.study.grid["batch.size"])


def _points(comparison: Comparison, name: str) -> Batches:
    """Every objective at every batch size of the contest; empty scores for missing runs."""
    points: Batches = {each: {size: {} for size in _sizes(comparison)} for each in NAMES}
    for row in comparison.contestants:
        sizes = points.get(family(row.objective), {})
        if row.point.get("batch.size") in sizes:
            sizes[row.point["batch.size"]] = accuracies(row, name)
    return points


def _over(points: Batches, how: str) -> dict[str, dict[int, float]]:
    return {name: COMBINED[how](list(sizes.values())) for name, sizes in points.items()}


def _clauses(points: Batches) -> Decisions:
    """Clauses over all sizes, at the smallest size, and on the effect of the size."""
    whole, spreads = _over(points, "mean"), _over(points, "spread")
    smallest = {name: sizes[min(sizes)] for name, sizes in points.items()}
    clauses: Decisions = {}
    for new, old in PAIRS:
        clauses[f"{NAMES[new]} is above {NAMES[old]}, mean over batch sizes"] = above(whole[new], whole[old])
    for new, old in PAIRS:
        clauses[f"{NAMES[new]} is above {NAMES[old]} {AT_SMALLEST}"] = above(smallest[new], smallest[old])
    for new in CHALLENGERS:
        clauses[f"{NAMES[new]} {LESS}"] = above(spreads["ntxent"], spreads[new])
    return clauses


def _table(points: Batches) -> str:
    sizes = list(next(iter(points.values())))
    rows = {
        NAMES[name]: [*own.values(), *(combine(list(own.values())) for combine in COMBINED.values())]
        for name, own in points.items()
    }
    return means_table([*(f"batch {size}" for size in sizes), "mean", "best − worst"], rows)


def _accuracy_rows(score: str, points: Batches) -> list[dict[str, Any]]:
    rows = []
    for name, sizes in points.items():
        start = {"score": score, "objective": NAMES[name]}
        rows += [{**start, "batch": size, **described(values)} for size, values in sizes.items()]
        rows += [{**start, "batch": how, **described(_over(points, how)[name])} for how in COMBINED]
    return rows


def _difference_rows(score: str, points: Batches) -> list[dict[str, Any]]:
    rows = []
    for new, old in PAIRS:
        start = {"score": score, "objective": NAMES[new], "minus": NAMES[old]}
        rows += [{**start, "batch": size, **contrasted(points[new][size], points[old][size])} for size in points[new]]
        for how in COMBINED:
            both = _over(points, how)
            rows.append({**start, "batch": how, **contrasted(both[new], both[old])})
    return rows


def _curves(points: Batches) -> list[Curve]:
    return [
        Curve(NAMES[name], [(size, *ends(values)) for size, values in sizes.items() if values])
        for name, sizes in points.items()
    ]


def _fault(comparison: Comparison, points: Batches, clauses: Decisions) -> str:
    failed = [words for words, holds in clauses.items() if holds is False]
    if not failed:
        return ""
    best = {name: size for name, sizes in points.items() if (size := best_of(sizes)) is not None}
    parts = [trained_well({name: points[name][size] for name, size in best.items()}, untrained(comparison, DECIDING))]
    steps = _steps(comparison)
    if len(steps) > 1:
        (small, most), (large, fewest) = min(steps.items()), max(steps.items())
        parts.append(
            f"Scale: a batch of {small} takes {most} steps and one of {large} takes {fewest}, at one learning rate. "
            f"The best batch size is {', '.join(f'{size} for {NAMES[name]}' for name, size in best.items())}."
        )
        if most != fewest and len(set(best.values())) == 1 and set(best.values()) <= {small, large}:
            parts.append("It is the same end for all, so the number of steps decides more than the negatives do.")
    if any(words.startswith("DHEL") and (AT_SMALLEST in words or LESS in words) for words in failed):
        parts.append(f"Claim: {lee2025.about_dhel()}, so DHEL depends on the batch size at full size as well.")
    return " ".join(parts)


def _steps(comparison: Comparison) -> dict[int, int]:
    """Steps of a run at each batch size."""
    return {
        row.point["batch.size"]: int(run.result["steps"])
        for row in comparison.contestants
        for run in row.runs
        if run.state == "done" and run.result.get("steps") and "batch.size" in row.point
    }
