"""Nie et al. 2023, Figure 1: alignment, uniformity and quality of checkpoints; which loss overfits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hypersphere.figures.sentences import Spot, draw_checkpoints
from hypersphere.report import markdown_table
from hypersphere.studies.compare.results import Row
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import Scores, above, holds_for_all, plus_minus
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.nie2023.coordinates import (
    Checkpoint,
    Explained,
    checkpoints_of,
    explained,
    neighbours,
)
from hypersphere.studies.reproduce.nie2023.curves import (
    CHECKED,
    NAMES,
    QUANTITIES,
    curve_rows,
    drops,
    find_row,
    losses_of,
    rises,
    still_falling,
)

HALF = 0.5  # share of the variance below which two numbers are not enough
FLAT = 0.1  # share of its drop that a curve may rise and still count as flat
TRAINED = ("infonce", "align_uniform", "dcl")  # panels b, c, d


def fig1(held: Mapping[str, Held]) -> Finding:
    """The scatter with the share of the score that two coordinates explain, then the curves with their later rise."""
    long = held["nie-margins"]  # long enough to overfit
    spots = checkpoints_of(held["nie-objectives"].comparison)
    trained = [each for each in spots if each.step > 0]
    fits = [explained(trained, squares) for squares in (False, True)]
    best = max((fit for fit in fits if fit is not None), key=lambda fit: fit.r2, default=None)
    across, within = neighbours(trained)
    rows = {label: find_row(long.comparison, label) for label in TRAINED}
    clauses = {
        "a: checkpoints with the same alignment and uniformity differ in score by more than seeds do": above(
            across, within
        ),
        "a: both explain less than half of the variance of the score of an objective not seen": _little(best),
        **_overfitting(rows),
    }
    r2 = f"R² {best.r2:.2f} ({best.low:.2f} to {best.high:.2f})" if best else "R² not measured"
    return Finding(
        "a: Checkpoints with the same alignment and uniformity on STS-B dev differ in quality. b to d: trained with "
        "L_cl, InfoNCE on STS-B dev falls and stays flat. With L_a&u InfoNCE and uniformity fall and rise again, "
        "alignment does not; with L_dcl all three rise again.",
        _words(trained, fits, across, within, rows),
        clauses,
        data={"checkpoints": _listed(spots), "regression": _fit_rows(fits), "rises": _rise_rows(rows),
              "curves": [line for label, row in rows.items() for line in curve_rows(row, objective=label)]
              or [{"objective": None}]},
        figures={"fig1": draw_checkpoints(
            [Spot(NAMES[each.objective], each.alignment, each.uniformity, each.score) for each in spots],
            {f"{letter}: {NAMES[label]}": losses_of(rows[label])
             for letter, label in zip("bcd", TRAINED, strict=True)})},
        published="same coordinates, different quality; L_a&u and L_dcl overfit",
        here=f"{r2} on unseen objectives; InfoNCE on dev rises again by {plus_minus(rises(rows['dcl'], 'infonce'))} "
             f"under L_dcl",
        fault=_fault(clauses, long, list(rows.values()), best) if False in clauses.values() else "",
    )  # fmt: skip


def _little(best: Explained | None) -> bool | None:
    if best is None:
        return None
    return True if best.high < HALF else False if best.low > HALF else None


def _overfitting(rows: Mapping[str, Row]) -> dict[str, bool | None]:
    """Rises are compared with those under L_cl: a curve with noise always rises a little from its smallest value."""
    rise = {(label, quantity): rises(row, quantity) for label, row in rows.items() for quantity in QUANTITIES}
    tenth = {seed: FLAT * drop for seed, drop in drops(rows["infonce"], "infonce").items()}

    def more(label: str, *quantities: str) -> bool | None:
        return holds_for_all([above(rise[label, each], rise["infonce", each]) for each in quantities])

    return {
        "b: trained with L_cl, InfoNCE on STS-B dev rises again by less than a tenth of its drop": above(
            tenth, rise["infonce", "infonce"]
        ),
        "c: with L_a&u, InfoNCE and uniformity rise again by more than with L_cl": more(
            "align_uniform", "infonce", "uniformity"
        ),
        "c: alignment rises less with L_a&u than with L_dcl": above(
            rise["dcl", "alignment"], rise["align_uniform", "alignment"]
        ),
        "d: with L_dcl, all three rise again by more than with L_cl": more("dcl", *QUANTITIES),
    }


def _words(
    trained: Sequence[Checkpoint],
    fits: Sequence[Explained | None],
    across: Scores,
    within: Scores,
    rows: Mapping[str, Row],
) -> str:
    words = f"a: {len(trained)} checkpoints of {len({each.objective for each in trained})} objectives. "
    known = [fit for fit in fits if fit is not None]
    if known:
        listed = ", ".join(f"{fit.r2:.2f} ({fit.low:.2f} to {fit.high:.2f}; {fit.terms})" for fit in known)
        words += (
            "R² of the score of an objective that the regression on alignment and uniformity has not seen, with a 95 % "
            f"interval over objectives: {listed}. The better of the two decides. "
        )
    else:
        words += "Too few objectives or checkpoints for a regression. "
    if across:
        words += (
            f"Checkpoints of two objectives at the same coordinates differ by {plus_minus(across)} points, two seeds "
            f"of one objective at one step by {plus_minus(within)}. "
        )
    else:
        words += "No two objectives have checkpoints at the same coordinates. "
    return words + "b to d (contest nie-margins, default settings): " + _rising(rows)


def _rising(rows: Mapping[str, Row]) -> str:
    if not any(rises(row, "infonce") for row in rows.values()):
        return "fewer than two evaluations after the first step, so no curve can be seen to rise again."
    drop = plus_minus(drops(rows["infonce"], "infonce"), 3)
    table = [[NAMES[label], *(plus_minus(rises(row, each), 3) for each in QUANTITIES)] for label, row in rows.items()]
    return (
        f"under L_cl, InfoNCE on STS-B dev falls by {drop}. From its smallest value to the last, a curve rises by "
        "(mean ± half the 95 % interval over seeds):\n\n" + markdown_table(["trained with", *QUANTITIES], table)
    )


def _listed(spots: Sequence[Checkpoint]) -> list[dict[str, Any]]:
    return [asdict(each) for each in spots] or [{"objective": None}]


def _fit_rows(fits: Sequence[Explained | None]) -> list[dict[str, Any]]:
    return [asdict(fit) for fit in fits if fit is not None] or [{"terms": None}]


def _rise_rows(rows: Mapping[str, Row]) -> list[dict[str, Any]]:
    return [
        {"objective": label, "quantity": quantity, "seed": seed, "last minus smallest": value,
         "drop": drops(row, quantity).get(seed)}
        for label, row in rows.items()
        for quantity in QUANTITIES
        for seed, value in rises(row, quantity).items()
    ] or [{"objective": None}]  # fmt: skip


def _fault(clauses: Mapping[str, bool | None], held: Held, rows: Sequence[Row], best: Explained | None) -> str:
    """The fault. For the scatter: the claim, since there were checkpoints. For the curves: scale if they still fall."""
    words = []
    if best is not None and best.low > HALF:
        words.append(
            f"a: claim, as far as this scale tells: the two numbers explain {best.r2:.0%} of the variance of "
            "objectives that the regression has not seen."
        )
    if any(holds is False for clause, holds in clauses.items() if not clause.startswith("a")):
        falling, ended = still_falling(rows, "infonce")
        if held.scale != "full" and falling > ended / 2:
            words.append(
                f"b to d: scale: in {falling} of {ended} runs InfoNCE on STS-B dev is smallest at the last evaluation, "
                "so training ends before a loss can overfit."
            )
        else:
            words.append(
                f"b to d: claim, as far as this scale tells: in {ended - falling} of {ended} runs InfoNCE on STS-B dev "
                "has risen from its smallest value, but not in the published order."
            )
    elif clauses and not words:
        words.append("a: claim, as far as this scale tells: objectives at the same coordinates score alike.")
    return " ".join([*words, CHECKED])
