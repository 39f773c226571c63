"""The report of a study in one file: the verdict first, then ranking, cost, curves, reasons, failures, recipes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hypersphere.figures.comparison import Curve, draw_curves, draw_map, draw_ranking
from hypersphere.report import page
from hypersphere.studies.compare.cells import UNTRAINED
from hypersphere.studies.compare.files import HEADER, about, settings_in_words, table_rows
from hypersphere.studies.compare.results import Comparison, Row, Run
from hypersphere.studies.compare.words import floor_in_words, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHY = (
    ("gap", "gap"),
    ("effective_rank", "effective rank"),
    ("with_gradient", "anchors with gradient"),
    ("dissipation", "gradient kept"),
    ("hardest_weight", "weight of the hardest"),
    ("ratio", "ratio"),
)


def comparison_page(comparison: Comparison) -> str:
    study = comparison.plan.study
    fixed = comparison.plan.untrained[0].recipe
    return page.page(
        f"{len(study.objectives)} objectives on {title_of(comparison)}",
        f"The same encoder ({fixed.encoder.name}), data, batches and steps for all; only the objective and what was "
        "tuned for it differ.",
        [
            page.section("Verdict", *_verdict(comparison)),
            page.section("Ranking", *_ranking(comparison)),
            page.section("Cost and settings", _cost(comparison)),
            *_curves(comparison),
            page.section("Why", *_why(comparison)),
            page.section("What went wrong", *_wrong(comparison)),
            page.section("Recipes to copy", *_recipes(comparison)),
        ],
        footer="Written by hypersphere compare. The same numbers stand in results.json and results.csv.",
    )


def title_of(comparison: Comparison) -> str:
    return Path(comparison.plan.untrained[0].recipe.data.source).name


def _verdict(comparison: Comparison) -> list[str]:
    first, *rest = verdict(comparison)
    kind = "good" if any(each.decided for each in comparison.differences) else "warn"
    return [page.Box(kind, first, rest).html()]


def ranking_figure(comparison: Comparison) -> Figure | None:
    """A figure of every test score; None before the first score."""
    scored = [row for row in comparison.ranking if row.summary is not None]
    if not scored:
        return None
    return draw_ranking(
        {row.name: list(row.test.values()) for row in scored},
        {row.name: (row.summary.low, row.summary.high) for row in scored if row.summary},
        f"Test scores of {len(scored)} contestant{'s' if len(scored) > 1 else ''} on {title_of(comparison)}",
        f"test {comparison.metric}",
    )


def _ranking(comparison: Comparison) -> list[str]:
    parts = []
    figure = ranking_figure(comparison)
    if figure is not None:
        parts.append(page.pictures([(figure, "Ranking", "A dot is a run, a line its mean, a bar the 95 % interval.")]))
    parts += [
        page.table(HEADER, table_rows(comparison), numbers=range(1, len(HEADER))),
        page.paragraph(about(comparison)),
    ]
    floor = floor_in_words(comparison.plan.study.seeds, len(comparison.pairs)) if comparison.pairs else ""
    if floor:
        parts.append(page.paragraph(f"Groups over all pairs: {floor[:1].lower()}{floor[1:]}"))
    elif comparison.groups:
        groups = "; ".join(", ".join(group) for group in comparison.groups)
        parts.append(page.paragraph(f"Groups that cannot be told apart, over all pairs: {groups}."))
    return parts


def _cost(comparison: Comparison) -> str:
    rows = []
    for row in comparison.ranking:
        runs = [*row.tuning, *row.runs]
        total = sum(run.result.get("seconds") or 0.0 for run in runs)
        memory = "" if row.memory is None else f"{row.memory:.0f}"
        chosen = "" if row.name == UNTRAINED else settings_in_words(row.settings or row.point)
        rows.append([row.name, str(len(runs)), _shown(row.seconds, 1), f"{total:.0f}", memory, chosen])
    return page.table(
        ["objective", "runs", "seconds a run", "seconds in all", "memory (MB)", "settings"], rows, numbers=range(1, 5)
    )


def _curves(comparison: Comparison) -> list[str]:
    metric, drawn = comparison.metric, []
    learning = {row.name: curve for row in comparison.contestants if (curve := _history(row, metric)) is not None}
    if learning and not comparison.plan.study.grid:
        figure = draw_curves(learning, f"Learning on {title_of(comparison)}", "step", f"validation {metric}")
        drawn.append((figure, "Learning curves", "Mean over seeds of the chosen settings; the band is their range."))
    tuning = {
        row.name: (list(range(1, len(row.expected_best) + 1)), [row.expected_best])
        for row in comparison.contestants
        if row.expected_best
    }
    if tuning:
        figure = draw_curves(
            tuning, f"Tuning on {title_of(comparison)}", "trials", f"expected best validation {metric}"
        )
        words = "A curve that still rises at its end has not been searched enough, or one lucky trial made it."
        drawn.append((figure, "Tuning curves", words))
    drawn += _sweeps(comparison)
    return [page.section("How it came about", page.pictures(drawn))] if drawn else []


def _sweeps(comparison: Comparison) -> list[tuple[Figure, str, str]]:
    """A grid's scores over its first numeric key; the other keys appear in the names."""
    grid = comparison.plan.study.grid
    keys = [key for key, values in grid.items() if all(isinstance(v, (int, float)) for v in values) and len(values) > 1]
    if not keys:
        return []
    key = keys[0]
    lines: dict[str, dict[float, list[float]]] = {}
    for row in comparison.contestants:
        others = [f"{name} {value}" for name, value in row.point.items() if name != key]
        if row.test:
            lines.setdefault(", ".join([row.objective, *others]), {})[float(row.point[key])] = list(row.test.values())
    fewest = {name: min(len(values) for values in points.values()) for name, points in lines.items()}
    curves: dict[str, Curve] = {
        name: (sorted(points), [[points[x][seed] for x in sorted(points)] for seed in range(fewest[name])])
        for name, points in lines.items()
    }
    if not curves:
        return []
    spread = max(grid[key]) >= 10 * min(grid[key]) > 0
    figure = draw_curves(
        curves, f"Sweep of {key} on {title_of(comparison)}", key, f"test {comparison.metric}", log=spread
    )
    return [(figure, f"Sweep of {key}", "Mean over seeds; the band is their range.")]


def _history(row: Row, metric: str) -> Curve | None:
    """Validation scores over the steps that all runs of a row share."""
    series = [
        {int(step): scores.get(metric) for step, scores in run.result.get("history", {}).items()} for run in row.runs
    ]
    series = [each for each in series if each]
    if not series:
        return None
    steps = sorted(set.intersection(*({step for step, value in each.items() if value is not None} for each in series)))
    return (steps, [[float(each[step] or 0.0) for step in steps] for each in series]) if len(steps) > 1 else None


def _why(comparison: Comparison) -> list[str]:
    header = ["objective", *(words for _, words in WHY)]
    rows = []
    for row in comparison.ranking:
        if row.name == UNTRAINED:
            continue
        cells = []
        for quantity, _ in WHY:
            before, after = row.measured(quantity, last=False), row.measured(quantity)
            cells.append("" if after is None or before is None else f"{before:.3g} → {after:.3g}")
        rows.append([row.name, *cells])
    parts = [
        page.table(header, rows, numbers=range(1, len(header))),
        page.paragraph(
            "Measured by the monitor on held-out data, before the first step and after the last one, mean over seeds. "
            "Gradient kept: 1 is all of it, 0 none.", soft=True,
        ),
    ]  # fmt: skip
    points = _points(comparison.rows)
    if len(points) > 1:
        figure = draw_map(points, f"Alignment and uniformity on {title_of(comparison)}", f"test {comparison.metric}")
        words = "Where each run ended. If colour followed position, alignment and uniformity would be enough."
        parts.append(page.pictures([(figure, "Alignment and uniformity", words)]))
    return parts


def _points(rows: Sequence[Row]) -> list[tuple[str, float, float, float]]:
    points = []
    for row in rows:
        for run in row.runs:
            measured = [each for each in run.result.get("measured", []) if "alignment" in each and "uniformity" in each]
            if run.test is not None and measured:
                points.append((row.name, measured[-1]["alignment"], measured[-1]["uniformity"], run.test))
    return points


def _wrong(comparison: Comparison) -> list[str]:
    failed = [[run.contestant, _which(run), run.reason] for run in comparison.failures]
    said: dict[tuple[str, str], list[Run]] = {}
    for row in comparison.contestants:
        for run in (*row.tuning, *row.runs):
            for name, _ in run.result.get("verdicts", []):
                said.setdefault((row.name, name), []).append(run)
    noted = [[who, f"{len(runs)} run{'s' if len(runs) > 1 else ''}", name] for (who, name), runs in said.items()]
    if not failed and not noted:
        return [page.Box("good", "Nothing", ["No run failed, and the monitor had nothing to complain about."]).html()]
    parts = []
    if failed:
        parts.append(page.table(["objective", "run", "reason"], failed))
    if noted:
        parts.append(page.table(["objective", "how often", "what the monitor saw"], noted))
    return parts


def _which(run: Run) -> str:
    return f"{run.stage}, trial {run.trial}, seed {run.seed} ({settings_in_words(run.settings)})"


def _recipes(comparison: Comparison) -> list[str]:
    return [
        f"<details><summary>{page.escape(row.name)}</summary><pre>{page.escape(row.recipe)}</pre></details>"
        for row in comparison.ranking
    ]


def _shown(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
