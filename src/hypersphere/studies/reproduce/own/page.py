"""The write-up of hypersphere/factorial, made from its results: ``docs/factorial.md`` is written by

python -m hypersphere.studies.reproduce.own.page results docs/factorial.md
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypersphere.report import atomic_write, markdown_table
from hypersphere.studies.reproduce.contest import Contest, contests, recorded
from hypersphere.studies.reproduce.index import results_of
from hypersphere.studies.reproduce.own.factorial import ADDED, ANATOMY, MORE, PARTS, PLACES, SETS, WORDS

ITEM = "hypersphere/factorial"
NAMES = {"images": "factorial-images", "text": "factorial-text"}
SHOWN = 5  # objectives at each end of the ranking
ANSWERS = {True: "yes", False: "no", None: "undecided"}
Rows = Sequence[Mapping[str, Any]]


def page(results: Path, beside: Path) -> str:
    """The page, with links from the folder ``beside``."""
    tree = results_of(results, ITEM)
    parts = [_question(), _status(results) if tree is None else _answer(tree), _design()]
    if tree is not None:
        home = os.path.relpath(results / ITEM, beside)
        parts += [
            _prediction(tree, home),
            _alone(tree["tables"]["predictors"]),
            _extremes(tree["tables"]["objectives"]),
        ]
    return "\n".join([*parts, _method(), _limits(), _again(tree)])


def _question() -> str:
    return """# Do dissipation, weight and ratio predict a loss?

Li et al. (2024) write the gradient of every effective loss as dissipation × weight × ratio. Nie et al. (2023) show that
alignment and uniformity alone do not tell how good a representation is. Neither asks whether the *measured* components
of a loss tell how good it will be. This page does: a regression sees some losses and predicts one that it has not seen.
"""


def _status(results: Path) -> str:
    """The progress of the runs, for a page without results."""
    lines = ["**The runs are not complete, so there is no answer yet.**", ""]
    for name in NAMES.values():
        held = recorded(name, "small", results)
        planned = _planned(contests()[name])
        ended = 0
        if held is not None:
            runs = [run for row in held.comparison.rows for run in (*row.tuning, *row.runs)]
            ended = sum(run.state in ("done", "failed") for run in runs)
        lines.append(f"- {name}: {ended} of {planned} runs")
    return "\n".join([*lines, ""])


def _planned(contest: Contest) -> int:
    from hypersphere.studies.compare.cells import Plan

    return Plan(contest.at("small", Path())).count()


def _answer(tree: Mapping[str, Any]) -> str:
    rows = [
        [part, *(ANSWERS[tree["clauses"].get(f"{data}: {part}")] for data in NAMES)] for part in PARTS
    ]  # fmt: skip
    return "\n".join([
        f"**The answer: {tree['verdict']}.** {tree['measured']}", "",
        markdown_table(["", *NAMES], rows), "",
        "A part is answered where a 95 % interval excludes zero.", "",
    ])  # fmt: skip


def _design() -> str:
    lines = ["## The runs", "", "`paradigm` composes losses from a dissipation (none, InfoNCE's, MPT's gate), a weight "
             "(softmax at several temperatures, the hardest negative, all alike) and a ratio (constants, MET's).",
             "Registered objectives stand beside them, with their default settings. All have one budget; the learning "
             "rate of each is chosen on validation data. The quality is the test score of the last weights, mean over "
             "fresh seeds.", ""]  # fmt: skip
    for data, name in NAMES.items():
        contest = contests()[name]
        objectives = contest.study["objectives"]
        composed = sum(isinstance(each, dict) and each["name"] == "paradigm" for each in objectives)
        lines += [f"- **{data.capitalize()}**, {composed} composed losses and {len(objectives) - composed} registered "
                  f"objectives, {_planned(contest)} runs. {' '.join(contest.smaller.split())}"]  # fmt: skip
    return "\n".join([*lines, ""])


def _prediction(tree: Mapping[str, Any], home: str) -> str:
    lines = ["## How well an unseen objective is predicted", "", "Share of the variance explained; 0 is the baseline "
             "\"mean of all\", below 0 is worse than it. In brackets 95 % intervals.", ""]  # fmt: skip
    predictors = tree["tables"].get("predictors", [])
    chosen = [*list(SETS)[:3], MORE, ADDED, "measured anatomy, composed to registered"]
    lines += [markdown_table(["predicted from", *NAMES], [[words, *_cells(predictors, words)] for words in chosen]), ""]
    lines += [_in_addition(predictors), ""]
    for data in NAMES:
        if any(row["data"] == data for row in predictors):
            lines += [f"![Predicted and measured test scores, {data}]({home}/prediction-{data}.png)", ""]
    return "\n".join(lines)


def _in_addition(predictors: Rows) -> str:
    """Nie et al.'s claim: are alignment and uniformity enough? A question asked after the runs."""
    answers = {row["data"]: row["low"] > 0 for row in predictors if row["numbers"] == ADDED}
    told = "; ".join(
        f"on {data} the anatomy {'adds to' if adds else 'is not shown to add to'} alignment and uniformity"
        for data, adds in answers.items()
    )
    return f"Whether alignment and uniformity are enough was asked after the runs: {told}." if told else ""


def _alone(predictors: Rows) -> str:
    words = [WORDS[name] for name in (*ANATOMY, *PLACES)]
    rows = [[each, *_cells(predictors, each)] for each in words]
    best = {
        data: max(known, key=lambda row: row["explained"])
        for data in NAMES
        if (known := [row for row in predictors if row["data"] == data and row["numbers"] in words])
    }
    told = "; ".join(f"on {data} {row['numbers']} ({row['explained']:.2f})" for data, row in best.items())
    return "\n".join([
        "## What each number tells alone", "", markdown_table(["number", *NAMES], rows), "",
        f"The single number that predicts most: {told}." if told else "", "",
    ])  # fmt: skip


def _extremes(objectives: Rows) -> str:
    lines = ["## The best and the worst", ""]
    for data in NAMES:
        ranked = sorted((row for row in objectives if row["data"] == data), key=lambda row: -row["quality"])
        if not ranked:
            continue
        ends = ranked if len(ranked) <= 2 * SHOWN else [*ranked[:SHOWN], *ranked[-SHOWN:]]
        cells = [[str(row["objective"]), f"{row['quality']:.1f}", *(f"{row[name]:.2f}" for name in ANATOMY)]
                 for row in ends]  # fmt: skip
        header = [f"{data}, the first and last {SHOWN} of {len(ranked)}", "test", *(WORDS[name] for name in ANATOMY)]
        lines += [markdown_table(header, cells), ""]
    return "\n".join(lines)


def _method() -> str:
    return """## How it is judged

- The five numbers are measured on held-out rows: share of active anchors, weight of the hardest negative and ratio as
  means over training, gap and effective rank at its end. A ratio counts by the logarithm of its size.
- A ridge regression on the standardised numbers and their squares leaves out one objective with all its seeds. Scales
  and penalty come from the other objectives alone. Objectives whose numbers are the same in all digits are left out
  together.
- Intervals resample objectives, not runs. They hold the fitted regressions as they are.
- The third question fits on composed losses alone and predicts the registered ones.
"""


def _limits() -> str:
    return """## What it does not show

- Everything is small: encoders, data, steps. A loss that wins late cannot win here.
- The regression is linear in the numbers and their squares. A number may matter in a way that it cannot follow.
- Gap and rank are measured at the end of training: they describe what a loss did, and choose no loss before it is run.
- Prediction is not cause. Composed losses vary the components on purpose, registered objectives do not.
"""


def _again(tree: Mapping[str, Any] | None) -> str:
    lines = ["## Computed with", "", "```", f"hypersphere reproduce {ITEM} --scale small --out results",
             "python -m hypersphere.studies.reproduce.own.page results docs/factorial.md", "```", ""]  # fmt: skip
    for name, about in ({} if tree is None else tree["contests"]).items():
        lines.append(f"- {name}: {about.get('minutes', 0):g} minutes on {about.get('machine', 'an unknown machine')}, "
                     f"commit {about.get('commit') or 'unknown'}, torch {about.get('torch', 'unknown')}")  # fmt: skip
    return "\n".join([*lines, ""]) if tree is not None else "\n".join(lines)


def _cells(predictors: Rows, words: str) -> list[str]:
    known = {row["data"]: row for row in predictors if row["numbers"] == words}
    return [
        f"{known[data]['explained']:.2f} ({known[data]['low']:.2f} to {known[data]['high']:.2f})"
        if data in known
        else "–"
        for data in NAMES
    ]


if __name__ == "__main__":
    home, target = Path(sys.argv[1]), Path(sys.argv[2])
    atomic_write(target, page(home, target.parent))
