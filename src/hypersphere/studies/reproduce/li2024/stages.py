"""Li et al. 2024, Table 5 and Figure 1: four losses that were not contrastive, repaired step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hypersphere.figures.stages import Bar, Gains, draw_bars, draw_gains
from hypersphere.studies.compare.cells import UNTRAINED
from hypersphere.studies.compare.results import Row
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import Scores, above, difference, holds_for_all, sets_in_words, summary
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.li2024.published import (
    MODIFIED,
    NAMES,
    ORIGINAL,
    STAGE_SCORES,
    STAGES,
    STS,
    STS_SCORES,
)
from hypersphere.studies.reproduce.li2024.readings import (
    blame,
    change,
    given_weights,
    mean,
    minus,
    rows_of,
    scores,
    with_interval,
)
from hypersphere.studies.reproduce.li2024.sets import table3, table4

__all__ = ["fig1", "table3", "table4", "table5"]

CONTEST = "li-stages"
LARGEST = {"mmhe": "+W", "mmhs": "+GD", "mbarlow": "+W", "mvicreg": "+W"}
E9 = "E9: the rows of Barlow Twins and VICReg are exchanged in print; they stand here as Table 3 has them."
CHECKED = "the gradient of every stage is that of an independent reference (`tests/golden_gradients.json`)"


def label_of(loss: str, stage: str) -> str:
    """The row of a stage in the contest; the last is the modified loss as it is.

    >>> label_of("mmhe", "+GD"), label_of("mmhe", "+R")
    ('mmhe stage=+gd', 'mmhe')
    """
    return loss if stage == "+R" else f"{loss} stage={stage.lower()}"


def similarity(held: Held) -> tuple[str, str]:
    """The deciding score and its name: the average of seven sets, or STS-B test if they were not evaluated."""
    if any(scores(row, "sts_average") for row in held.comparison.rows):
        return "sts_average", f"average of {sets_in_words(held.comparison.rows, STS, 'STS')}"
    return "stsb_test", "STS-B test (the seven sets were not evaluated)"


def table5(held: Mapping[str, Held]) -> Finding:
    """The similarity score of each original loss, then with dissipation, with weight, with ratio."""
    contest = held[CONTEST]
    rows = rows_of(contest)
    name, words = similarity(contest)
    stages = {loss: _stages(rows, loss, name) for loss in MODIFIED}
    clauses: dict[str, bool | None] = {}
    for loss, by_stage in stages.items():
        steps = [above(after, before) for before, after in pairwise(by_stage.values())]
        clauses[f"{ORIGINAL[loss]}: each stage is above the one before"] = holds_for_all(steps)
        clauses[f"{ORIGINAL[loss]}: the largest step is {LARGEST[loss]}"] = _largest(by_stage, LARGEST[loss])
    told = "; ".join(
        f"{ORIGINAL[loss]} " + ", ".join(f"{stage} {with_interval(values)}" for stage, values in by_stage.items())
        for loss, by_stage in stages.items()
    )
    jumps = "; ".join(
        f"{ORIGINAL[loss]} " + ", ".join(f"{stage} {change(after, before)}" for (_, before), (stage, after) in
                                         pairwise(by_stage.items()))
        for loss, by_stage in stages.items()
    )  # fmt: skip
    return Finding(
        "Modifying dissipation, weight and ratio one after the other raises the STS average at every stage: the losses "
        "have 62.6 to 72.7 as they were and end at 78.2 to 78.4. The largest step is that of the weight, "
        "except for MHS, whose weight is already on the nearest negative: there it is dissipation.",
        f"{words[:1].upper()}{words[1:]}: {told}. Steps: {jumps}.{_kept_words(contest)}",
        clauses,
        E9,
        {"table5": [line for loss, by_stage in stages.items() for line in _lines(loss, by_stage)]},
        {"table5": draw_gains([_gains(loss, by_stage) for loss, by_stage in stages.items()])},
        published="rises at every stage: MHE 62.62, 64.53, 77.39, 78.40",
        here="MHE " + ", ".join(with_interval(values) for values in stages["mmhe"].values()),
        fault=blame(contest, evidence(contest), CHECKED) if False in clauses.values() else "",
    )


def _stages(rows: Mapping[str, Row], loss: str, name: str) -> dict[str, dict[int, float]]:
    """Scores of the stages that a loss has."""
    there = [stage for stage, value in zip(STAGES, STAGE_SCORES[loss], strict=True) if value is not None]
    return {stage: scores(rows.get(label_of(loss, stage)), name) for stage in there}


def _largest(by_stage: Mapping[str, Scores], wanted: str) -> bool | None:
    """Whether the step to a stage is larger than each of the others, seed by seed."""
    steps = {stage: minus(after, before) for (_, before), (stage, after) in pairwise(by_stage.items())}
    return holds_for_all([above(steps[wanted], step) for stage, step in steps.items() if stage != wanted])


def _lines(loss: str, by_stage: Mapping[str, Scores]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    printed = dict(zip(STAGES, STAGE_SCORES[loss], strict=True))
    before: str | None = None
    for stage, values in by_stage.items():
        here = summary(values)
        step = difference(values, by_stage[before]) if before else None
        now, then = printed[stage], printed[before] if before else None
        lines.append(
            {"loss": ORIGINAL[loss], "stage": stage, "published": now, "here": here.mean if here else None,
             "low": here.low if here else None, "high": here.high if here else None, "seeds": len(values),
             "published step": round(now - then, 2) if now is not None and then is not None else None,
             "step": step.mean if step else None, "step low": step.low if step else None,
             "step high": step.high if step else None}
        )  # fmt: skip
        before = stage
    return lines


def _gains(loss: str, by_stage: Mapping[str, Scores]) -> Gains:
    """Points above the original, published and here."""
    printed = [(stage, value) for stage, value in zip(STAGES, STAGE_SCORES[loss], strict=True) if value is not None]
    start = by_stage["original"]
    here = [
        (stage, list(gains.values()))
        for stage, values in by_stage.items()
        if (gains := minus(values, start)) or stage == "original"
    ]
    return Gains(
        ORIGINAL[loss], [(stage, value - printed[0][1]) for stage, value in printed], here, printed[0][1], mean(start)
    )


def fig1(held: Mapping[str, Held]) -> Finding:
    """Bars of the four losses, original and modified, beside InfoNCE."""
    contest = held[CONTEST]
    rows = rows_of(contest)
    name, words = similarity(contest)
    infonce = scores(rows.get("infonce"), name)
    pairs = {loss: [scores(rows.get(label_of(loss, stage)), name) for stage in ("original", "+R")] for loss in MODIFIED}
    clauses: dict[str, bool | None] = {}
    for loss, (before, after) in pairs.items():
        clauses[f"{ORIGINAL[loss]} is below InfoNCE"] = above(infonce, before)
        clauses[f"{NAMES[loss]} is above InfoNCE"] = above(after, infonce)
    told = "; ".join(
        f"{ORIGINAL[loss]} {with_interval(before)} ({change(before, infonce)} against InfoNCE), modified "
        f"{with_interval(after)} ({change(after, infonce)})"
        for loss, (before, after) in pairs.items()
    )
    gains = [minus(after, before) for before, after in pairs.values()]
    known = [value for gain in gains if (value := mean(gain)) is not None]
    here = f"gains of {min(known):.1f} to {max(known):.1f}" if known else "not measured"
    return Finding(
        "Losses that are not contrastive (MHE and MHS with alignment, Barlow Twins, VICReg) are far below InfoNCE on "
        "sentence similarity (62.6 to 72.7 against 76.25); with dissipation, weight and ratio modified all four are "
        "above it (78.2 to 78.4).",
        f"{words[:1].upper()}{words[1:]}: InfoNCE {with_interval(infonce)}; {told}.{_kept_words(contest)}",
        clauses,
        E9,
        {"fig1": [line for loss, pair in pairs.items() for line in _pair_lines(loss, pair, infonce)]},
        {"fig1": draw_bars(_published_bars(), _bars(pairs), (_published_infonce(), mean(infonce)), words)},
        published="four losses at 62.6 to 72.7, modified 78.2 to 78.4, InfoNCE 76.25",
        here=f"{here} points, InfoNCE {with_interval(infonce)}",
        fault=blame(contest, evidence(contest), CHECKED) if False in clauses.values() else "",
    )


def _published_infonce() -> float | None:
    return STS_SCORES["infonce"][-1]


def _published_bars() -> list[Bar]:
    return [Bar(ORIGINAL[loss], STAGE_SCORES[loss][0], STAGE_SCORES[loss][-1], (), ()) for loss in MODIFIED]


def _bars(pairs: Mapping[str, Sequence[Scores]]) -> list[Bar]:
    return [
        Bar(ORIGINAL[loss], mean(before), mean(after), list(before.values()), list(after.values()))
        for loss, (before, after) in pairs.items()
    ]


def _pair_lines(loss: str, pair: Sequence[Scores], infonce: Scores) -> list[dict[str, Any]]:
    lines = []
    for form, values, published in zip(("original", "modified"), pair, STAGE_SCORES[loss][:: len(STAGES) - 1],
                                       strict=True):  # fmt: skip
        against = difference(values, infonce)
        lines.append(
            {"loss": ORIGINAL[loss], "form": form, "published": published, "here": mean(values), "seeds": len(values),
             "minus InfoNCE": against.mean if against else None, "low": against.low if against else None,
             "high": against.high if against else None}
        )  # fmt: skip
    return lines


def _kept_words(contest: Held) -> str:
    kept = given_weights(contest.comparison.contestants)
    return (
        f" {kept} of the runs scored best before their first step: their scores are those of the encoder as given, and "
        "the loss itself did worse."
        if kept
        else ""
    )


def evidence(contest: Held) -> str:
    """InfoNCE's gain with the same budget, and the number of runs that never got above their start."""
    rows = rows_of(contest)
    gained = change(scores(rows.get("infonce"), "stsb_test"), scores(rows.get(UNTRAINED), "stsb_test"))
    kept = given_weights(contest.comparison.contestants)
    return (
        f"on STS-B test InfoNCE gained {gained} points over the encoder as given, and {kept} of the runs never got "
        "above their start."
    )
