"""Li and Pimentel-Alarcón 2024, Table 2: where five objectives leave three lines of R³."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hypersphere.figures.rates import Line, Point, draw_rates
from hypersphere.studies.compare.cells import UNTRAINED
from hypersphere.studies.compare.results import Comparison, Row
from hypersphere.studies.reproduce.cloa2024.accuracies import diverged
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import above, holds_for_all, plus_minus, row_of, score, summary
from hypersphere.studies.reproduce.items import Finding

OBJECTIVES = {
    "InfoNCE": "ntxent",
    "DCL": "dcl negatives=both temperature=0.5",
    "Barlow Twins": "barlow",
    "VICReg": "vicreg",
    "CLOA": "cloa base=ntxent",
}
MEASURES = {
    "first_share": "first singular value (share)",
    "first_share_centred": "the same, of centred rows",
    "effective_rank": "effective rank",
    "class_cosine": "largest |cos| between\nclass directions",
    "knn": "3-NN accuracy, %",
}
DRAWN = ("first_share", "class_cosine", "knn")
NORMS = {"batch": "with batch norm, as in the paper", "none": "without batch norm"}
# A line with the data's noise, .05 in each of the two other directions, has 1 / (1 + .05 + .05) = .91.
LINE = 0.9
# Classes are separate if their directions are more than 60° apart. The points themselves have .90 to .99, and then
# the nearest line is the right one for 79 to 90 % of them: no accuracy can serve as a bound.
SEPARATE = 0.5

Setting = tuple[float, str]  # learning rate, norm
Judged = Mapping[Setting, Mapping[str, bool | None]]


def table2(held: Mapping[str, Held]) -> Finding:
    """Shape of the embeddings and separation of the classes at every learning rate, with and without batch norm."""
    comparison = held["cloa-lines"].comparison
    grid = comparison.plan.study.grid
    settings = [(rate, norm) for norm in grid["encoder.norm"] for rate in grid["optimizer.lr"]]
    judged = {setting: _clauses(comparison, setting) for setting in settings}
    chosen = _most_favourable(comparison, {each: judged[each] for each in settings if each[1] == "batch"})
    clauses = judged[chosen]
    rows = [_row(comparison, name, each) for each in settings for name in OBJECTIVES]
    shares = {name: _scores(comparison, name, chosen, "first_share") for name in OBJECTIVES}
    return Finding(
        claim="Three noisy lines of R³, the positive of x being -x: trained to convergence with InfoNCE, all "
        "embeddings end on one line; with VICReg and Barlow Twins they spread slightly wider, but the classes are not "
        "separated; with orthonormal anchors (CLOA) the classes separate. Neither learning rate nor sizes are given.",
        measured=_measured(comparison, chosen, judged),
        clauses=clauses,
        published="InfoNCE on a line, CLOA separates the classes",
        here=f"first singular value's share: InfoNCE {plus_minus(shares['InfoNCE'])}, CLOA "
        f"{plus_minus(shares['CLOA'])} (1: a line)",
        fault=_fault(comparison, judged, clauses),
        errata="E10: embeddings on one line are called a local minimum of the loss; they are a stationary point, in "
        "general a strict saddle, so a small step need not end there.",
        data={"lines": rows, "clauses": _judged_rows(judged)},
        figures={"lines": _figure(comparison, settings)},
    )


def _clauses(comparison: Comparison, setting: Setting) -> dict[str, bool | None]:
    """The parts of the claim at one setting."""

    def own(name: str, measure: str) -> dict[int, float]:
        return _scores(comparison, name, setting, measure)

    def beyond(values: Mapping[int, float], bound: float) -> bool | None:
        return above(values, dict.fromkeys(values, bound))

    wide = ("VICReg", "Barlow Twins")
    separate = own("CLOA", "class_cosine")
    return {
        f"InfoNCE ends on a line (first share above {LINE:g})": beyond(own("InfoNCE", "first_share"), LINE),
        "VICReg and Barlow Twins are wider than InfoNCE (smaller first share)": holds_for_all(
            [above(own("InfoNCE", "first_share"), own(name, "first_share")) for name in wide]
        ),
        f"VICReg and Barlow Twins do not separate the classes (|cos| of two directions above {SEPARATE:g})": (
            holds_for_all([beyond(own(name, "class_cosine"), SEPARATE) for name in wide])
        ),
        f"CLOA separates the classes (|cos| of all directions below {SEPARATE:g})": above(
            dict.fromkeys(separate, SEPARATE), separate
        ),
        "CLOA's 3-NN accuracy is above that of InfoNCE, VICReg and Barlow Twins": holds_for_all(
            [above(own("CLOA", "knn"), own(name, "knn")) for name in ("InfoNCE", *wide)]
        ),
    }


def _most_favourable(comparison: Comparison, judged: Judged) -> Setting:
    """The setting at which most parts of the claim hold, then fewest fail, then InfoNCE is nearest to a line. The paper
    does not give its own."""

    def order(setting: Setting) -> tuple[int, int, float]:
        values = list(judged[setting].values())
        first_share = summary(_scores(comparison, "InfoNCE", setting, "first_share"))
        return values.count(True), -values.count(False), first_share.mean if first_share else 0.0

    return max(judged, key=order)


def _row_at(comparison: Comparison, name: str, setting: Setting) -> Row | None:
    try:
        return row_of(comparison, OBJECTIVES[name], optimizer__lr=setting[0], encoder__norm=setting[1])
    except KeyError:
        return None


def _scores(comparison: Comparison, name: str, setting: Setting, measure: str) -> dict[int, float]:
    row = _row_at(comparison, name, setting)
    return score(row, measure) if row else {}


def _row(comparison: Comparison, name: str, setting: Setting) -> dict[str, Any]:
    row = _row_at(comparison, name, setting)
    runs = row.runs if row else []
    line: dict[str, Any] = {"objective": name, "rate": setting[0], "norm": setting[1]}
    line |= {"runs": sum(run.state == "done" for run in runs), "failed": sum(run.state == "failed" for run in runs)}
    for measure in MEASURES:
        estimate = summary(_scores(comparison, name, setting, measure))
        line[measure] = estimate.mean if estimate else None
        line[f"{measure}_low"], line[f"{measure}_high"] = (estimate.low, estimate.high) if estimate else (None, None)
    return line


def _judged_rows(judged: Judged) -> list[dict[str, Any]]:
    words = {True: "holds", False: "does not hold", None: "undecided"}
    return [
        {"rate": rate, "norm": norm, **{clause: words[holds] for clause, holds in clauses.items()}}
        for (rate, norm), clauses in judged.items()
    ]


def _measured(comparison: Comparison, chosen: Setting, judged: Judged) -> str:
    def shape(name: str) -> str:
        first, rank, cosine, knn = (
            plus_minus(_scores(comparison, name, chosen, measure), digits)
            for measure, digits in (("first_share", 2), ("effective_rank", 2), ("class_cosine", 2), ("knn", 1))
        )
        return f"{name} {first}, {rank}, {cosine}, {knn} %"

    untrained = comparison.by_name[UNTRAINED]
    line = next(iter(judged[chosen]))
    flat = [setting for setting, clauses in judged.items() if clauses[line]]
    return (
        f"The clauses are judged at rate {chosen[0]:g} with batch norm, of the rates tried the one at which most of "
        f"them hold. There, share of the first singular value, effective rank, largest |cos| between class directions "
        f"and 3-NN accuracy are: {'; '.join(map(shape, OBJECTIVES))}. The untrained network has a first share of "
        f"{plus_minus(score(untrained, 'first_share'))} and {plus_minus(score(untrained, 'knn'), 1)} %. InfoNCE ends "
        f"on a line at {len(flat)} of {len(judged)} settings{f' ({_listed(flat)})' if flat else ''}. "
        f"{_failures(comparison)}"
    )


def _listed(settings: Sequence[Setting]) -> str:
    words = [f"rate {rate:g} {'with' if norm == 'batch' else 'without'} batch norm" for rate, norm in settings]
    return ", ".join(words)


def _failures(comparison: Comparison) -> str:
    """Runs that failed, by name; they have no numbers and are left out of the means."""
    runs = [run for row in comparison.contestants for run in row.runs]
    names = {label: name for name, label in OBJECTIVES.items()}
    failed = [
        f"{names.get(row.objective, row.objective)} at {_listed([tuple(row.point.values())])}"
        for row in comparison.contestants for run in row.runs if run.state == "failed"
    ]  # fmt: skip
    if not failed:
        return "No run failed."
    counted = "; ".join(f"{where}, {count}" for where, count in Counter(failed).items())
    return (
        f"{len(failed)} runs failed, {sum(map(diverged, runs))} of them with a loss or gradient that was no longer "
        f"finite, and are left out: {counted}."
    )


def _fault(comparison: Comparison, judged: Judged, clauses: Mapping[str, bool | None]) -> str:
    """Claim or setting: how near to a line InfoNCE comes at any setting, and how far CLOA separates."""
    if False not in clauses.values():
        return ""
    line, *_, separate, _ = clauses
    words = []
    if clauses[line] is False:
        first_shares = {each: summary(_scores(comparison, "InfoNCE", each, "first_share")) for each in judged}
        means = {each: value.mean for each, value in first_shares.items() if value}
        nearest = max(means, key=lambda each: means[each])
        words.append(
            f"Claim or setting, for the line: of {len(means)} settings InfoNCE is nearest to one at "
            f"{_listed([nearest])}, with a first share of {means[nearest]:.2f}. That speaks against the claim: a line "
            "is a saddle of the loss (cloa2024/theorem31), which gradient descent leaves."
        )
    if clauses[separate] is False:
        cosine = plus_minus(score(comparison.by_name[UNTRAINED], "class_cosine"))
        words.append(
            f"Setting, perhaps, for CLOA: before training |cos| of two class directions is {cosine}; how many labels, "
            "which weight and how many steps the paper had is unknown."
        )
    if not words:
        words.append("Claim or setting, which these runs cannot tell apart.")
    words.append("The rate is the most favourable of those tried; the paper's own, sizes and steps are unknown.")
    return " ".join(words)


def _figure(comparison: Comparison, settings: Sequence[Setting]) -> Any:
    lines = []
    for measure in DRAWN:
        panels: dict[str, dict[str, list[Point]]] = {}
        for rate, norm in settings:
            for name in OBJECTIVES:
                row = _row_at(comparison, name, (rate, norm))
                estimate = summary(_scores(comparison, name, (rate, norm), measure))
                lost = any(run.state == "failed" for run in row.runs) if row else False
                point = (
                    Point(rate, estimate.mean, estimate.low, estimate.high, lost) if estimate else Point(rate, math.nan)
                )
                panels.setdefault(NORMS.get(norm, norm), {}).setdefault(name, []).append(point)
        level = {"first_share": (LINE, "a line"), "class_cosine": (SEPARATE, "separate below")}.get(measure)
        lines.append(
            Line(MEASURES[measure], panels, level=level[0] if level else None, about=level[1] if level else "")
        )
    return draw_rates(lines, "some runs failed")
