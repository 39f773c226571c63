"""Nie et al. 2023, Figure 3: the effect of MPT's margin on the gap, on similarity and transfer, and on overfitting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hypersphere.figures.sentences import MarginPoint, draw_margins
from hypersphere.report import markdown_table
from hypersphere.studies.compare.results import Comparison, Row
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import Scores, above, holds_for_all, measured, plus_minus, score
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.nie2023.curves import (
    CHECKED,
    NAMES,
    compared,
    curve_rows,
    find_row,
    growths,
    kept,
    losses_of,
    mean,
    points,
    rises,
    series,
    still_falling,
)
from hypersphere.studies.reproduce.nie2023.scores import AVERAGES, ONE_SET, OPEN

SMALL, BEST, LARGE = 0.1, 0.23, 0.8  # panels c, d, e
OTHERS = ("infonce", "dcl", "dcl_plus")
MPT = "mpt margin="
TWO_GAPS = (
    "d_ij is defined twice: the caption takes the gap to the mean of the negatives' distances, the text "
    "to the nearest negative. The caption's is measured."
)


def fig3(held: Mapping[str, Held]) -> Finding:
    """Margins against gap, similarity and transfer; the gap while training; the losses of three margins."""
    contest, tuned = held["nie-margins"], held["nie-objectives"].comparison
    rows = margins_of(contest.comparison)
    others = {label: find_row(contest.comparison, label) for label in OTHERS}
    similarity = AVERAGES[0] if any(score(row, AVERAGES[0]) for row in rows.values()) else ONE_SET
    sts = {margin: score(row, similarity) for margin, row in rows.items()}
    transfer = {margin: score(row, AVERAGES[1]) for margin, row in rows.items()}
    gaps = {margin: kept(row, "gap") for margin, row in rows.items()}
    clauses = {
        "a: similarity is best at a margin between the smallest and the largest": peaked(sts),
        "a: transfer changes less over the margins than similarity": above(spread(sts), spread(transfer)),
        "a: the largest margin leaves a larger gap than the smallest": _ends(gaps),
        "b: in the second half of training the gap grows more with L_dcl than with L_cl, L_dcl+ and L_mpt": _growing(
            rows, others
        ),
        "c: m = 0.10 ends with a worse uniformity on STS-B dev than m = 0.23": above(
            _last(rows.get(SMALL), "uniformity"), _last(rows.get(BEST), "uniformity")
        ),
        "e: with m = 0.80 InfoNCE on STS-B dev rises again by more than with m = 0.23": above(
            _rises(rows.get(LARGE)), _rises(rows.get(BEST))
        ),
    }
    what = "STS" if similarity in AVERAGES else "STS-B test"
    top = max((margin for margin in sts if sts[margin]), key=lambda margin: mean(sts[margin]), default=None)
    best = "not measured" if top is None else f"best m = {top:g} with {plus_minus(sts[top])} on {what}"
    curves = {f"{letter}: m = {margin:.2f}": losses_of(rows[margin])
              for letter, margin in zip("cde", (SMALL, BEST, LARGE), strict=True) if margin in rows}  # fmt: skip
    return Finding(
        "a: The gap d_ij, mean distance to the negatives minus distance to the positive, grows with MPT's margin; "
        "similarity is best at a margin inside the range, transfer is flat. b: the gap keeps growing with the "
        "decoupled L_dcl, not with L_cl, L_dcl+ and L_mpt. c to e: m = 0.10 leaves uniformity where it was, "
        "m = 0.23 is best, m = 0.80 overfits like L_dcl.",
        _words(sts, transfer, gaps, rows, others, tuned, what),
        clauses,
        errata=TWO_GAPS,
        data={"margins": _margin_rows(rows, gaps, similarity), "gap": _gap_rows(rows, others, tuned),
              "curves": [line for margin, row in rows.items() for line in curve_rows(row, margin=margin)]
              or [{"margin": None}]},
        figures={"fig3": draw_margins(
            _drawn(gaps, sts), _drawn(gaps, transfer),
            {NAMES[label]: series(row, "gap", "measured") for label, row in _growth_rows(rows, others).items()},
            curves, what)},
        published="similarity peaked inside (best m = 0.23), transfer flat",
        here=best,
        fault=_fault(clauses, contest, rows, others) if False in clauses.values() else "",
    )  # fmt: skip


def margins_of(comparison: Comparison) -> dict[float, Row]:
    """The rows of MPT by their margin, the smallest first."""
    by_margin = {
        float(row.objective.removeprefix(MPT)): row for row in comparison.rows if row.objective.startswith(MPT)
    }
    return dict(sorted(by_margin.items()))


def peaked(sts: Mapping[float, Scores]) -> bool | None:
    """Whether the best margin inside the range is above the smallest and the largest one."""
    inner = [margin for margin in list(sts)[1:-1] if sts[margin]]
    if not inner:
        return None
    best = max(inner, key=lambda margin: mean(sts[margin]))
    return holds_for_all([above(sts[best], sts[end]) for end in (min(sts), max(sts))])


def spread(scores: Mapping[float, Scores]) -> dict[int, float]:
    """By seed: best minus worst over all margins; seeds that lack a margin are left out."""
    seeds = set.intersection(*(set(by) for by in scores.values())) if scores else set()
    return {
        seed: max(by[seed] for by in scores.values()) - min(by[seed] for by in scores.values())
        for seed in sorted(seeds)
    }


def _ends(gaps: Mapping[float, Scores]) -> bool | None:
    return above(gaps[max(gaps)], gaps[min(gaps)]) if gaps else None


def _growth_rows(rows: Mapping[float, Row], others: Mapping[str, Row]) -> dict[str, Row]:
    return {**({"mpt": rows[BEST]} if BEST in rows else {}), **others}


def _growing(rows: Mapping[float, Row], others: Mapping[str, Row]) -> bool | None:
    grown = {label: growths(row) for label, row in _growth_rows(rows, others).items()}
    return holds_for_all([above(grown["dcl"], by) for label, by in grown.items() if label != "dcl"])


def _last(row: Row | None, quantity: str) -> dict[int, float]:
    """By seed: the last value on STS-B dev."""
    curves = {run.seed: points(run, quantity, "pairs") for run in row.runs} if row else {}
    return {seed: curve[-1][1] for seed, curve in curves.items() if curve and curve[-1][0] > 0}


def _rises(row: Row | None) -> dict[int, float]:
    return rises(row, "infonce") if row else {}


def _words(
    sts: Mapping[float, Scores],
    transfer: Mapping[float, Scores],
    gaps: Mapping[float, Scores],
    rows: Mapping[float, Row],
    others: Mapping[str, Row],
    tuned: Comparison,
    what: str,
) -> str:
    words = f"a: best minus worst margin, by seed: {what} {plus_minus(spread(sts))}, transfer "
    words += f"{plus_minus(spread(transfer))}. " if any(transfer.values()) else "not evaluated. "
    grown = {NAMES[label]: growths(row) for label, row in _growth_rows(rows, others).items()}
    words += "b: growth of the gap over the second half of training: "
    words += ", ".join(f"{name} {plus_minus(by, 3)}" for name, by in grown.items())
    again = {NAMES[label]: growths(find_row(tuned, label)) for label in ("mpt", *OTHERS)}
    if any(again.values()):
        words += "; with tuned settings: " + ", ".join(f"{name} {plus_minus(by, 3)}" for name, by in again.items())
    uniform = compared(_last(rows.get(SMALL), "uniformity"), _last(rows.get(BEST), "uniformity"), 3)
    words += f". c: final uniformity on STS-B dev with m = 0.10 minus that with m = 0.23: {uniform}. "
    words += f"e: L_dcl's InfoNCE on STS-B dev rises again by {plus_minus(_rises(others['dcl']), 3)}. Mean ± half the "
    head = ["margin", "gap", what, "transfer", "uniformity on dev", "rise of InfoNCE on dev"]
    table = [
        [f"{m:g}", plus_minus(gaps[m], 3), plus_minus(sts[m]), plus_minus(transfer[m]),
         plus_minus(_last(row, "uniformity"), 3), plus_minus(_rises(row), 3)]
        for m, row in rows.items()
    ]  # fmt: skip
    return words + "95 % interval over seeds:\n\n" + markdown_table(head, table)


def _margin_rows(rows: Mapping[float, Row], gaps: Mapping[float, Scores], similarity: str) -> list[dict[str, Any]]:
    return [
        {"margin": margin, "seed": run.seed, "gap": gaps[margin].get(run.seed),
         similarity: run.result.get("scores", {}).get(similarity),
         "transfer_average": run.result.get("scores", {}).get("transfer_average"),
         "uniformity on dev": _last(row, "uniformity").get(run.seed), "rise of InfoNCE": _rises(row).get(run.seed),
         "anchors with gradient": measured(row, "with_gradient").get(run.seed)}
        for margin, row in rows.items()
        for run in row.runs
    ] or [{"margin": None}]  # fmt: skip


def _gap_rows(rows: Mapping[float, Row], others: Mapping[str, Row], tuned: Comparison) -> list[dict[str, Any]]:
    every = [("nie-margins", row.name, row) for row in (*rows.values(), *others.values())]
    every += [("nie-objectives", label, find_row(tuned, label)) for label in NAMES if label != "untrained"]
    return [
        {"contest": contest, "objective": name, "step": step, "runs": len(values),
         "gap": sum(values) / len(values), "lowest": min(values), "highest": max(values)}
        for contest, name, row in every
        for step, values in series(row, "gap", "measured")
    ] or [{"contest": None}]  # fmt: skip


def _drawn(gaps: Mapping[float, Scores], scores: Mapping[float, Scores]) -> list[MarginPoint]:
    margin_points = []
    for margin, by in scores.items():
        seeds = [seed for seed in by if seed in gaps[margin]]
        if seeds:
            margin_points.append(
                MarginPoint(margin, [gaps[margin][seed] for seed in seeds], [by[seed] for seed in seeds])
            )
    return margin_points


def _fault(clauses: Mapping[str, bool | None], held: Held, rows: Mapping[float, Row], others: Mapping[str, Row]) -> str:
    """The fault: scale if the margins' gates are still open or no run has begun to overfit; else the claim."""
    if held.scale == "full":
        return f"Claim: the set-up is the paper's. {CHECKED}"
    falling, ended = still_falling([*_some(rows, LARGE), others["dcl"]], "infonce")
    active = mean(measured(rows[BEST], "with_gradient")) if BEST in rows else math.nan
    if not math.isfinite(active):
        return f"Not settled: the share of anchors with a gradient was not measured. {CHECKED}"
    if active > OPEN:
        return (
            f"Scale: when training ends {active:.0%} of the held-out anchors have not reached m = 0.23, so the larger "
            f"margins act alike and dissipation has not set in. {CHECKED}"
        )
    if falling > ended / 2:
        return (
            f"Scale: in {falling} of {ended} runs with m = 0.80 or L_dcl, InfoNCE on STS-B dev is smallest at the last "
            f"evaluation, so training ends before they can overfit. {CHECKED}"
        )
    failed = "; ".join(clause for clause, holds in clauses.items() if holds is False)
    return (
        f"Claim, as far as this scale tells: the gates close ({active:.0%} of the held-out anchors have a gradient at "
        f"m = 0.23) and {ended - falling} of {ended} runs with m = 0.80 or L_dcl overfit, yet it does not hold that "
        f"{failed}. {CHECKED}"
    )


def _some(rows: Mapping[float, Row], *margins: float) -> Sequence[Row]:
    return [rows[margin] for margin in margins if margin in rows]
