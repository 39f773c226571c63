"""The files of a study: results.json, results.csv, a Markdown and a LaTeX table, and the page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hypersphere.documents import json_safe
from hypersphere.report import atomic_write, markdown_table
from hypersphere.studies.compare.cells import UNTRAINED, shown
from hypersphere.studies.compare.results import Comparison, Row, Run
from hypersphere.studies.compare.words import spread, verdict

COLUMNS = ["contestant", "stage", "trial", "seed", "state", "reason", "validation", "test", "seconds", "memory", "cell"]
VERSION = 1  # of results.json
HEADER = [
    "objective",
    "test",
    "95 % interval",
    "IQM",
    "spread",
    "difference",
    "p",
    "P(better)",
    "validation",
    "seeds",
    "seconds",
]


def write_files(comparison: Comparison, folder: Path) -> Path:
    """Writes all files of the report and returns the page's path."""
    from hypersphere.studies.compare.page import comparison_page, ranking_figure

    figure = ranking_figure(comparison)
    if figure is not None:
        atomic_write(folder / "ranking.png", lambda place: figure.savefig(place, format="png", dpi=150))
    atomic_write(folder / "results.json", json.dumps(json_safe(as_tree(comparison)), indent=1))
    atomic_write(folder / "results.csv", as_csv(comparison))
    atomic_write(folder / "table.md", as_markdown(comparison))
    atomic_write(folder / "table.tex", as_latex(comparison))
    return atomic_write(folder / "report.html", comparison_page(comparison))


def as_tree(comparison: Comparison) -> dict[str, Any]:
    """Every number of the report; docs/compare.md describes the fields."""
    return {
        "version": VERSION,
        "study": comparison.plan.study.model_dump(),
        "metric": comparison.metric,
        "reference": comparison.reference,
        "complete": comparison.complete,
        "verdict": verdict(comparison),
        "rows": [_row(row) for row in comparison.ranking],
        "differences": [asdict(each) | {"decided": each.decided} for each in comparison.differences],
        "pairs": [asdict(each) | {"decided": each.decided} for each in comparison.pairs],
        "groups": comparison.groups,
        "runs": [asdict(run) for row in comparison.rows for run in (*row.tuning, *row.runs)],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "objective": row.objective,
        "point": row.point,
        "settings": row.settings,
        "summary": None if row.summary is None else asdict(row.summary),
        "test": row.test,
        "tuned": row.tuned,
        "validation": row.validation,
        "expected_best": row.expected_best,
        "at_bound": row.at_bound,
        "seconds": row.seconds,
        "memory": row.memory,
        "recipe": row.recipe,
    }


def as_csv(comparison: Comparison) -> str:
    """One line for each run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    runs = [run for row in comparison.rows for run in (*row.tuning, *row.runs)]
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    writer.writerow([*COLUMNS, *keys])
    writer.writerows(_csv_line(run, keys) for run in runs)
    return text.getvalue()


def _csv_line(run: Run, keys: Sequence[str]) -> list[Any]:
    cost = [run.result.get("seconds", ""), run.result.get("memory") or ""]
    scores = ["" if value is None else value for value in (run.validation, run.test)]
    settings = [run.settings.get(key, "") for key in keys]
    return [run.contestant, run.stage, run.trial, run.seed, run.state, run.reason, *scores, *cost, run.cell, *settings]


def table_rows(comparison: Comparison) -> list[list[str]]:
    """The ranking as rows with the columns of HEADER."""
    against = {each.name: each for each in comparison.differences}
    rows = []
    for row in comparison.ranking:
        difference, summary = against.get(row.name), row.summary
        if summary is None:
            rows.append([row.name, "no score", *[""] * (len(HEADER) - 3), _number(row.seconds, 1)])
            continue
        rows.append([
            row.name,
            f"{summary.mean:.2f}",
            f"{summary.low:.2f} to {summary.high:.2f}" if summary.count > 1 else "",
            f"{summary.iqm:.2f}",
            f"{summary.deviation:.2f}" if summary.count > 1 else "",
            _reference_or(comparison, row) if difference is None
            else f"{difference.mean:+.2f}{spread(difference)}",
            "" if difference is None else f"{difference.adjusted:.3g}",
            "" if difference is None else f"{difference.improvement:.2f}",
            _number(row.validation, 2),
            str(summary.count),
            _number(row.seconds, 1),
        ])  # fmt: skip
    return rows


def as_markdown(comparison: Comparison) -> str:
    words = "\n".join(f"- {sentence}" for sentence in verdict(comparison))
    return f"{words}\n\n{markdown_table(HEADER, table_rows(comparison))}\n\n{about(comparison)}\n"


def as_latex(comparison: Comparison) -> str:
    """A table for a paper: booktabs, mean and interval, the groups unchanged."""
    lines = [
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r"objective & test & 95\,\% interval & difference & $p$ \\",
        r"\midrule",
    ]
    for cells in table_rows(comparison):
        name, mean, interval, _, _, difference, p, *_ = cells
        shown_cells = [_tex(name), mean, interval.replace(" to ", "--"), difference.replace(" ± ", r" $\pm$ "), p]
        lines.append(" & ".join(shown_cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", f"% {about(comparison)}", ""])


def about(comparison: Comparison) -> str:
    """Explains the numbers of the table."""
    return (
        f"Test {comparison.metric} over {comparison.plan.study.seeds} fresh seeds ({_tuning(comparison)}); expanded "
        "percentile bootstrap intervals; "
        f"differences paired by seed with {comparison.reference}, sign-flip test with Holm's correction; P(better): "
        "share of pairs of runs in which the objective is above the reference."
    )


def _tuning(comparison: Comparison) -> str:
    study = comparison.plan.study
    if study.grid:
        return "no tuning, a grid"
    if not study.tunes:
        return "settings as given"
    if not study.stages:
        return f"{study.trials} trials each on validation data"
    counts = sorted({comparison.plan.trials(each) for each in study.objectives})
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{number} trials each on validation data, in stages"


def settings_in_words(settings: dict[str, Any]) -> str:
    return (
        ", ".join(f"{key.removeprefix('objective.')} {shown(value)}" for key, value in settings.items()) or "defaults"
    )


def _reference_or(comparison: Comparison, row: Row) -> str:
    return "reference" if row.objective == comparison.reference and row.name != UNTRAINED else ""


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _tex(text: str) -> str:
    for char in "&%$#_{}":
        text = text.replace(char, f"\\{char}")
    return text
