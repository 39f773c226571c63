"""Li et al. 2024, Tables 6 and 7: the settings that a search finds for the four modified losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from hypersphere.figures.stages import Trials, draw_trials
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.li2024.published import (
    BERT_SETTINGS,
    MODIFIED,
    NAMES,
    ROBERTA_SETTINGS,
    ROBERTA_STS,
    SETTINGS,
    STS_SCORES,
)
from hypersphere.studies.reproduce.li2024.readings import (
    beyond,
    blame,
    change,
    constant,
    filled,
    rows_of,
    scores,
    with_interval,
)

JUDGED = ("margin", "temperature", "ratio")
HELD = ("learning rate", "batch size")
CHECKED = "the losses' gradients equal their formulas at any setting (`hypersphere reproduce li2024/table2`)"

Settings = Mapping[str, float | None]


@dataclass(frozen=True)
class Trial:
    """One setting of a search, and its score on STS-B dev."""

    number: int
    settings: Settings
    score: float


def table6(held: Mapping[str, Held]) -> Finding:
    """The first encoder."""
    averages = {loss: STS_SCORES[loss][-1] for loss in MODIFIED}
    return _search(held["li-search"], "table6", "BERT-base", BERT_SETTINGS, averages)


def table7(held: Mapping[str, Held]) -> Finding:
    """A second encoder."""
    return _search(held["li-search-second"], "table7", "RoBERTa-base", ROBERTA_SETTINGS, ROBERTA_STS)


def _search(
    contest: Held,
    name: str,
    encoder: str,
    settings: Mapping[str, tuple[float | None, ...]],
    averages: Mapping[str, float | None],
) -> Finding:
    printed: dict[str, Settings] = {loss: dict(zip(SETTINGS, settings[loss], strict=True)) for loss in MODIFIED}
    trials = trials_of(contest)
    won = {loss: max(each, key=lambda trial: (trial.score, -trial.number)) for loss, each in trials.items() if each}
    fresh = {loss: scores(rows_of(contest).get(loss), "stsb_test") for loss in MODIFIED}
    effects = _effects(trials, printed)
    clauses: dict[str, bool | None] = {
        f"the published {key} scores higher than others, the other settings held": beyond(effects[key], 0)
        for key in JUDGED
    }
    same = [loss for loss, trial in won.items() if all(trial.settings[key] == printed[loss][key] for key in JUDGED)]
    told = "; ".join(f"{NAMES[loss]} {in_words(trial.settings)} ({trial.score:.1f})" for loss, trial in won.items())
    return Finding(
        f"The search in two stages (batch size and learning rate, then margin, temperature and ratio) ends with "
        f"{encoder} at: " + "; ".join(f"{NAMES[loss]} {in_words(each)}" for loss, each in printed.items())
        + ". STS averages there: "
        + ", ".join(f"{NAMES[loss]} {value:.2f}" for loss, value in averages.items() if value is not None) + ".",
        f"Winners on STS-B dev: {told or 'none yet'}. Their margin, temperature and ratio are the published ones for "
        f"{len(same)} of {len(won)} losses. STS-B test of the winners with fresh seeds: "
        + ", ".join(f"{NAMES[loss]} {with_interval(values)}" for loss, values in fresh.items())
        + ". Points that the published value adds, the other settings held (least squares over the trials of each "
        + f"loss, 95 % interval over the losses): {_effect_words(effects)}.",
        clauses,
        data=filled(winners=_winner_lines(won, printed, fresh, averages), trials=_trial_lines(trials)),
        figures={name: draw_trials([_panel(loss, trials[loss], printed[loss], fresh[loss]) for loss in MODIFIED])},
        published="; ".join(f"{NAMES[loss]} {_short(each)}" for loss, each in printed.items()),
        here="; ".join(f"{NAMES[loss]} {_short(trial.settings)}" for loss, trial in won.items()) or "not measured",
        fault=blame(contest, _evidence(trials), CHECKED) if False in clauses.values() else "",
    )  # fmt: skip


def trials_of(contest: Held) -> dict[str, list[Trial]]:
    """The trials of every loss that have a score."""
    plan = contest.comparison.plan
    trials: dict[str, list[Trial]] = {loss: [] for loss in MODIFIED}
    for row in contest.comparison.contestants:
        runs = {run.cell: run for run in reversed(row.tuning)}  # two stages may share a setting
        for run in sorted(runs.values(), key=lambda run: run.trial) if row.objective in trials else []:
            if run.validation is None:
                continue
            recipe = plan.trial({"name": row.objective}, run.trial, run.settings).recipe
            objective = recipe.resolved()["objective"]
            settings = {
                "batch size": recipe.batch.size,
                "learning rate": recipe.optimizer.lr,
                # MHS puts its weight on the nearest negative: no temperature enters
                **{key: None if (row.objective, key) == ("mmhs", "temperature") else objective[key] for key in JUDGED},
            }
            trials[row.objective].append(Trial(run.trial, settings, run.validation))
    return trials


def effects_of(trials: Sequence[Trial], printed: Settings) -> dict[str, float]:
    """The gain in score of the published value of each setting over other values, with the other settings held.

    Least squares over the trials of one loss: a constant, one column for each setting that was tried with its published
    value and with another, the logarithms of learning rate and batch size where they vary. Empty unless there are more
    trials than columns and every column can be told from the others.
    """
    columns = {"constant": [1.0] * len(trials)}
    for key in JUDGED:
        if printed[key] is not None:
            columns[key] = [float(trial.settings[key] == printed[key]) for trial in trials]
    for key in HELD:
        columns[key] = [math.log(trial.settings[key] or 1.0) for trial in trials]
    columns = {key: each for key, each in columns.items() if key == "constant" or len(set(each)) > 1}
    design = np.array(list(columns.values())).T  # (trials, columns)
    if len(trials) <= len(columns) or np.linalg.matrix_rank(design) < len(columns):
        return {}
    fitted = np.linalg.lstsq(design, np.array([trial.score for trial in trials]), rcond=None)[0]
    return {key: float(value) for key, value in zip(columns, fitted, strict=True) if key in JUDGED}


def _effects(trials: Mapping[str, Sequence[Trial]], printed: Mapping[str, Settings]) -> dict[str, dict[int, float]]:
    """Setting → place of the loss → effect."""
    by_loss = [effects_of(trials[loss], printed[loss]) for loss in MODIFIED]
    return {key: {k: each[key] for k, each in enumerate(by_loss) if key in each} for key in JUDGED}


def _effect_words(effects: Mapping[str, Mapping[int, float]]) -> str:
    """Intervals are over the losses, so a single loss has none."""
    return ", ".join(
        f"{key} {change(values, constant(values, 0.0))}" if len(values) > 1 else f"{key} not to be told from the others"
        for key, values in effects.items()
    )


def in_words(settings: Settings) -> str:
    """Settings in the table's letters.

    >>> in_words({"batch size": 128, "learning rate": 1e-5, "margin": 0.3, "temperature": None, "ratio": 1.75})
    'batch 128, rate 1e-05, m 0.3, r 1.75'
    """
    letters = {"batch size": "batch", "learning rate": "rate", "margin": "m", "temperature": "τ", "ratio": "r"}
    return ", ".join(f"{letters[key]} {value:g}" for key, value in settings.items() if value is not None)


def _short(settings: Settings) -> str:
    return in_words({key: settings[key] for key in JUDGED})


def _winner_lines(
    won: Mapping[str, Trial],
    printed: Mapping[str, Settings],
    fresh: Mapping[str, Mapping[int, float]],
    averages: Mapping[str, float | None],
) -> list[dict[str, Any]]:
    """Published setting and winner, one below the other."""
    lines: list[dict[str, Any]] = []
    for loss in MODIFIED:
        lines.append(
            {"loss": NAMES[loss], "from": "published", **printed[loss], "stsb_dev": None, "stsb_test": None,
             "sts_average": averages[loss]}
        )  # fmt: skip
        if loss in won:
            values = fresh[loss]
            lines.append(
                {"loss": NAMES[loss], "from": "here", **won[loss].settings, "stsb_dev": won[loss].score,
                 "stsb_test": fmean(values.values()) if values else None, "sts_average": None}
            )  # fmt: skip
    return lines


def _trial_lines(trials: Mapping[str, Sequence[Trial]]) -> list[dict[str, Any]]:
    return [
        {"loss": NAMES[loss], "trial": trial.number, **trial.settings, "stsb_dev": trial.score}
        for loss, each in trials.items()
        for trial in each
    ]


def _panel(loss: str, trials: Sequence[Trial], printed: Settings, fresh: Mapping[int, float]) -> Trials:
    ranked = sorted(trials, key=lambda trial: (-trial.score, trial.number))
    lines = [
        (f"{_short(trial.settings)}, rate {trial.settings['learning rate']:.1e}", trial.score,
         all(trial.settings[key] == printed[key] for key in JUDGED))
        for trial in ranked
    ]  # fmt: skip
    return Trials(NAMES[loss], lines, list(fresh.values()))


def _evidence(trials: Mapping[str, Sequence[Trial]]) -> str:
    """The number of trials and the spread of their scores."""
    spans = [max(t.score for t in each) - min(t.score for t in each) for each in trials.values() if each]
    count = max((len(each) for each in trials.values()), default=0)
    span = f"{min(spans):.1f} to {max(spans):.1f}" if spans else "unknown"
    return f"{count} trials for each loss, one run each; best and worst differ by {span} points."
