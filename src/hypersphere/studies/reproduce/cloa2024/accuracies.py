"""Accuracies of a contest of bases, each with and without anchors, over learning rates."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from hypersphere.studies.compare.cells import UNTRAINED
from hypersphere.studies.compare.results import Comparison, Row, Run
from hypersphere.studies.reproduce.evidence import row_of

RATE = "optimizer.lr"
BASES = {  # the paper's name → the label in the contests
    "InfoNCE": "ntxent",
    "DCL": "dcl negatives=both temperature=0.5",
    "Barlow Twins": "barlow",
    "VICReg": "vicreg",
}
ANCHORED = {
    "InfoNCE": "cloa base=ntxent",
    "DCL": "cloa base=dcl,negatives=both,temperature=0.5",
    "Barlow Twins": "cloa base=barlow",
    "VICReg": "cloa base=vicreg",
}
ROWS = [(base, anchors) for base in BASES for anchors in (False, True)]  # of the paper's tables
FEW = 0.1  # the share of the labels in Figures 1 and 2


@dataclass(frozen=True)
class Accuracies:
    """The accuracies that the items read from such a contest. A run that ended without a finite score (training or its
    probe diverged) has the accuracy of a guess. Scores that were not requested are left out, as are runs that have not
    ended or that failed for another reason."""

    comparison: Comparison

    @cached_property
    def _recipe(self) -> Any:
        return self.comparison.plan.grid[0].recipe

    @property
    def probe(self) -> str:
        """The name of the classifier on the frozen encoder in the scores."""
        return str(self._recipe.evaluation.after[0])

    @property
    def shares(self) -> list[float]:
        """Shares of the labels, the smallest first."""
        return sorted(self._recipe.evaluation.shares)

    @property
    def few(self) -> float:
        """A tenth of the labels, or the smallest share there is."""
        return FEW if FEW in self.shares else self.shares[0]

    @property
    def rates(self) -> list[float]:
        """Learning rates, the smallest first."""
        return sorted(self.comparison.plan.study.grid[RATE])

    @property
    def classes(self) -> int:
        """Number of classes: ten in every data set of the contests except CIFAR-100."""
        return 100 if re.search(r"cifar-?100", str(self._recipe.data.source)) else 10

    def chance(self, top: int = 1) -> float:
        """Accuracy of a guess in per cent."""
        return 100.0 * top / self.classes

    def row(self, base: str, anchors: bool, rate: float) -> Row | None:
        try:
            return row_of(self.comparison, (ANCHORED if anchors else BASES)[base], optimizer__lr=rate)
        except KeyError:
            return None

    def accuracy(self, base: str, anchors: bool, rate: float | None, share: float, top: int = 1) -> dict[int, float]:
        """Test accuracy in per cent by seed; ``rate`` None (no rate could be chosen) gives none."""
        row = self.row(base, anchors, rate) if rate is not None else None
        return self._accuracy(row, share, top) if row else {}

    def untrained(self, share: float) -> dict[int, float]:
        return self._accuracy(self.comparison.by_name[UNTRAINED], share, 1)

    def _accuracy(self, row: Row, share: float, top: int) -> dict[int, float]:
        name = f"{self.probe}_{share:g}"
        accuracies = {}
        for run in row.runs:
            scores = run.result.get("scores", {})
            if diverged(run) or (name in scores and not _finite(scores[name])):
                accuracies[run.seed] = self.chance(top)
            elif _finite(value := scores.get(name if top == 1 else f"{name}_top{top}")):
                accuracies[run.seed] = float(value)
        return accuracies

    def variance(self, base: str, anchors: bool, rate: float) -> dict[int, float]:
        """Variance of the test embeddings, summed over dimensions, by seed; diverged runs are left out."""
        row = self.row(base, anchors, rate)
        values = {run.seed: run.result.get("scores", {}).get("variance") for run in row.runs} if row else {}
        return {seed: float(value) for seed, value in values.items() if _finite(value)}

    def best(self, base: str, anchors: bool, among: Sequence[float] | None = None) -> float | None:
        """The rate with the highest mean score on validation images; a diverged run counts as a guess."""
        scored = {}
        for rate in self.rates if among is None else among:
            runs = row.runs if (row := self.row(base, anchors, rate)) else []
            values = [self.chance() if diverged(run) else run.validation for run in runs]
            if any(run.validation is not None for run in runs):
                scored[rate] = fmean([value for value in values if value is not None])
        return max(scored, key=lambda rate: scored[rate]) if scored else None

    def unscored(self, share: float, base: str, anchors: bool, rate: float) -> int:
        """Runs that diverged, or whose classifier did."""
        row = self.row(base, anchors, rate)
        return sum(self._without(run, [share]) for run in row.runs) if row else 0

    def without_score(self, shares: Sequence[float], rows: Sequence[tuple[str, bool]] = ROWS) -> str:
        """One sentence on the runs that diverged, or whose classifier did; then other failures, if any."""
        lost: Counter[str] = Counter()
        ended = others = 0
        for base, anchors in rows:
            for row in filter(None, (self.row(base, anchors, rate) for rate in self.rates)):
                ended += sum(run.state in ("done", "failed") for run in row.runs)
                where = f"{named(base, anchors)} at rate {row.point[RATE]:g}"
                lost[where] += sum(self._without(run, shares) for run in row.runs)
                others += sum(run.state == "failed" and not diverged(run) for run in row.runs)
        listed = ", ".join(f"{count} of {where}" for where, count in lost.items() if count)
        rest = f" {others} failed for another reason and are left out." if others else ""
        if not listed:
            return f"None of the {ended} runs that ended diverged.{rest}"
        return (
            f"{lost.total()} of {ended} runs diverged, or the classifier on their features did; they count as chance "
            f"({self.chance():g} %): {listed}.{rest}"
        )

    def _without(self, run: Run, shares: Sequence[float]) -> bool:
        scores = run.result.get("scores", {})
        names = [f"{self.probe}_{share:g}" for share in shares]
        return diverged(run) or any(name in scores and not _finite(scores[name]) for name in names)


def diverged(run: Run) -> bool:
    """Whether training ended in a loss or gradient that is not finite."""
    return run.state == "failed" and "not finite" in run.reason


def named(base: str, anchors: bool) -> str:
    """The paper's name of a row of its tables.

    >>> named("DCL", True)
    'CLOA-DCL'
    """
    return f"CLOA-{base}" if anchors else base


def per_cent(share: float) -> str:
    return f"{100 * share:g} %"


def _finite(value: Any) -> bool:
    return value is not None and math.isfinite(value)
