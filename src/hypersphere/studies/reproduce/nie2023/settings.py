"""Nie et al. 2023, Table 2: the settings that won on validation data, beside the paper's grids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypersphere.figures.sentences import ChoicePanel, draw_choices
from hypersphere.objectives.settings import Range
from hypersphere.report import markdown_table
from hypersphere.studies.compare.results import AT_BOUND, Comparison, Row
from hypersphere.studies.compare.space import LEARNING_RATE, Choice, read_key
from hypersphere.studies.compare.statistics import LEVEL, student_quantile
from hypersphere.studies.compare.study import label_of
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import holds_for_all
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.nie2023.curves import CHECKED, NAMES, find_row

# The paper's grids: (objective, setting) → lowest, highest, in words.
GRIDS = {
    ("infonce", "temperature"): (0.03, 0.07, "0.03, 0.05, 0.07"),
    ("align_uniform", "weight"): (0.1, 0.9, "0.1, 0.3, 0.5, 0.7, 0.9"),
    ("align_uniform", "t"): (2.0, 10.0, "2 to 10 by 1"),
    ("align_uniform", "alpha"): (1.0, 3.0, "1, 2, 3"),
    ("dcl", "temperature"): (0.03, 0.07, "0.03, 0.05, 0.07"),
    ("dcl_plus", "temperature"): (0.1, 0.2, "0.10 to 0.20 by 0.01"),
    ("mpt", "margin"): (0.2, 0.35, "0.20 to 0.35 by 0.01"),
    ("met", "margin"): (0.4, 0.5, "0.40 to 0.50 by 0.01"),
    ("mat", "margin"): (0.1 * math.pi, 0.2 * math.pi, "0.10π to 0.20π by 0.01π"),
}
BEST = {("mpt", "margin"): 0.23, ("met", "margin"): 0.44}  # BERT-base; MET's from the released script
NEAR = 0.02  # a margin within this distance of the published one is near it
ALIKE = 2.0  # trials whose learning rates and batches differ by more than this factor are not compared
BATCH = "batch.size"


@dataclass(frozen=True)
class Trial:
    """A setting that was tried once: the values of all tuned keys, and its score on STS-B dev."""

    number: int
    values: Mapping[str, float]
    validation: float


def table2(held: Mapping[str, Held]) -> Finding:
    """The winners, whether they lie at an end of their range, and whether the trials can be told apart at all."""
    comparison = held["nie-objectives"].comparison
    noise = noise_of(comparison)
    trials = {label: trials_of(comparison, find_row(comparison, label)) for label in NAMES if label != "untrained"}
    near = {label: _near(trials[label], f"objective.{name}", BEST[label, name], noise) for label, name in BEST}
    inside = [_inside(comparison, label, f"objective.{name}", trials[label], noise) for label, name in BEST]
    clauses = {
        f"MPT: the best margin is within {NEAR} of 0.23": near["mpt"],
        f"MET: the best margin is within {NEAR} of 0.44": near["met"],
        "both margins lie inside their ranges, not at an end": holds_for_all(inside),
    }
    rows = _rows(comparison, trials)
    mpt, met = (_chosen(trials[label], "objective.margin") for label in ("mpt", "met"))
    return Finding(
        "Every objective has its setting, learning rate and batch size chosen on STS-B dev from a grid. The best "
        "margin of MPT for BERT-base is 0.23; the released script trains MET with 0.44. Both lie inside their grids. "
        "The body of the table is not at hand.",
        _words(rows, trials, noise),
        clauses,
        data={"settings": rows, "trials": _trial_rows(trials)},
        figures={"table2": draw_choices(_panels(trials), noise)},
        published="MPT m = 0.23, MET m = 0.44 (BERT-base)",
        here=f"MPT m = {mpt}, MET m = {met}" + ("" if any(each is not None for each in clauses.values()) else
                                               "; trials not told apart"),
        fault=_fault(held["nie-objectives"]) if False in clauses.values() else "",
    )  # fmt: skip


def trials_of(comparison: Comparison, row: Row) -> list[Trial]:
    """The trials of an objective that have a score; keys that a trial does not change have their defaults."""
    study = comparison.plan.study
    objective = next((each for each in study.objectives if label_of(each) == row.objective), None)
    if objective is None:
        return []
    base = study.base(objective)
    defaults = {key: float(read_key(base, key)) for key in comparison.plan.spaces[row.objective]}
    return [
        Trial(run.trial, {**defaults, **{key: float(value) for key, value in run.settings.items()}}, run.validation)
        for run in row.tuning
        if run.validation is not None
    ]


def noise_of(comparison: Comparison) -> float | None:
    """The largest difference on STS-B dev between two single runs of equal settings, 95 of 100 times.

    From the spread over fresh seeds at the chosen settings, pooled over objectives: t √2 s. None without two seeds.
    """
    squares, degrees = 0.0, 0
    for row in comparison.contestants:
        scores = [run.validation for run in row.runs if run.validation is not None]
        centre = sum(scores) / len(scores) if scores else 0.0
        squares += sum((value - centre) ** 2 for value in scores)
        degrees += max(0, len(scores) - 1)
    if not degrees:
        return None
    return student_quantile(1 - LEVEL / 2, degrees) * math.sqrt(2 * squares / degrees)


def winner(trials: Sequence[Trial]) -> Trial | None:
    """The best trial on validation data; the earliest wins a tie."""
    return max(trials, key=lambda each: (each.validation, -each.number), default=None)


def comparable(trials: Sequence[Trial]) -> list[Trial]:
    """The winner and the trials with similar learning rate and batch: the objective's setting decides among them."""
    best = winner(trials)
    if best is None:
        return []

    def alike(each: Trial) -> bool:
        pairs = [(each.values[key], best.values[key]) for key in (LEARNING_RATE, BATCH) if key in best.values]
        return all(max(a, b) <= ALIKE * min(a, b) for a, b in pairs)

    return [each for each in trials if alike(each)]


def decide(trials: Sequence[Trial], holds: Mapping[int, bool], noise: float | None) -> bool | None:
    """Whether something holds for the best trial. It must hold for all trials that may be the best, given the noise.
    None if these trials disagree, or if no other trial was ruled out."""
    rivals, best = comparable(trials), winner(trials)
    if noise is None or best is None:
        return None
    possible = [each for each in rivals if each.validation >= best.validation - noise]
    if len(possible) == len(rivals):
        return None
    said = {holds[each.number] for each in possible}
    return said.pop() if len(said) == 1 else None


def _near(trials: Sequence[Trial], key: str, published: float, noise: float | None) -> bool | None:
    """Whether the best trial is near the published value; also None if no trial, or every trial, was near."""
    holds = {each.number: abs(each.values[key] - published) <= NEAR + 1e-9 for each in trials}
    if len({holds[each.number] for each in comparable(trials)}) < 2:
        return None
    return decide(trials, holds, noise)


def _inside(comparison: Comparison, label: str, key: str, trials: Sequence[Trial], noise: float | None) -> bool | None:
    span = comparison.plan.spaces.get(label, {}).get(key)
    if span is None:
        return None
    return decide(trials, {each.number: not end_of(span, each.values[key]) for each in trials}, noise)


def end_of(span: Range | Choice, value: float) -> str:
    """The end of the range at which a value lies, as in the rows of a comparison; empty inside."""
    try:
        share = span.share(value)
    except ValueError:  # a default that is not among the choices
        return ""
    return "" if AT_BOUND <= share <= 1 - AT_BOUND else "lower" if share < 0.5 else "upper"


def _chosen(trials: Sequence[Trial], key: str) -> str:
    best = winner(trials)
    return "–" if best is None or key not in best.values else f"{best.values[key]:.3g}"


def _rows(comparison: Comparison, trials: Mapping[str, Sequence[Trial]]) -> list[dict[str, Any]]:
    table = []
    for label, each in trials.items():
        best = winner(each)
        for key, span in comparison.plan.spaces.get(label, {}).items():
            name = key.removeprefix("objective.")
            value = None if best is None else best.values[key]
            table.append(
                {"objective": NAMES[label], "setting": name, "chosen": value, "trials": len(each),
                 "comparable trials": len(comparable(each)), "lowest": span.low, "highest": span.high,
                 "at the end": "" if value is None else end_of(span, value),
                 "the paper's grid": GRIDS.get((label, name), ("", "", ""))[2],
                 "published best": BEST.get((label, name))}
            )  # fmt: skip
    return table


def _trial_rows(trials: Mapping[str, Sequence[Trial]]) -> list[dict[str, Any]]:
    table = [
        {"objective": NAMES[label], "trial": each.number, "stsb_dev": each.validation,
         "setting": key.removeprefix("objective."), "value": value}
        for label, tried in trials.items()
        for each in tried
        for key, value in each.values.items()
    ]  # fmt: skip
    return table or [{"objective": None, "trial": None, "stsb_dev": None, "setting": None, "value": None}]


def _words(rows: Sequence[Mapping[str, Any]], trials: Mapping[str, Sequence[Trial]], noise: float | None) -> str:
    own = [row for row in rows if row["setting"] not in (LEARNING_RATE, BATCH) and row["chosen"] is not None]
    head = ["", "setting", "chosen", "the paper's grid", "published best", "at an end"]
    table = "\n\n" + markdown_table(
        head,
        [[row["objective"], row["setting"], f"{row['chosen']:.3g}", row["the paper's grid"],
          f"{row['published best'] or '–'}", row["at the end"] or "–"] for row in own],
    )  # fmt: skip
    rates = [f"{row['objective']} {row['setting']} ({row['at the end']})" for row in rows
             if row["at the end"] and row["setting"] in (LEARNING_RATE, BATCH)]  # fmt: skip
    words = f"Learning rates and batches at an end of their range: {', '.join(rates) or 'none'}. "
    if noise is None:
        return words + "The spread over seeds was not measured, so the trials cannot be told apart. Winners:" + table
    words += f"Two runs of equal settings differ by up to {noise:.2f} points (95 %, from fresh seeds). "
    for label in ("mpt", "met"):
        tried, best = trials[label], winner(trials[label])
        if best is None:
            continue
        rivals = comparable(tried)
        possible = [each for each in rivals if each.validation >= best.validation - noise]
        margins = ", ".join(f"{each.values['objective.margin']:.3g}" for each in possible)
        words += (
            f"{NAMES[label]}: {len(tried)} trials, {len(rivals)} of them at a learning rate and batch within a factor "
            f"of {ALIKE:g} of the winner's; margins not ruled out: {margins}. "
        )
    return words + "Trials change the learning rate with the margin, so only those alike are compared. Winners:" + table


def _panels(trials: Mapping[str, Sequence[Trial]]) -> list[ChoicePanel]:
    return [
        ChoicePanel(
            f"{NAMES[label]}: {name}",
            [(each.values[key], each.validation, each.values.get(LEARNING_RATE, math.nan)) for each in trials[label]],
            (low, high),
            BEST.get((label, name)),
        )
        for (label, name), (low, high, _) in GRIDS.items()
        for key in [f"objective.{name}"]
        if all(key in each.values for each in trials[label])
    ]


def _fault(held: Held) -> str:
    if held.scale == "full":
        return f"Claim: encoder, data and grid are the paper's. {CHECKED}"
    return (
        "Scale: the best setting depends on encoder, batch and length of training, and the paper gives its own for "
        f"BERT-base alone; the number of negatives moves the line of dissipation (m = τ log(N−1)). {CHECKED}"
    )
