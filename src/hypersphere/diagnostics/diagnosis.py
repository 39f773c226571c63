"""The result of a check-up: numbers, a verdict, a table to read and a dictionary for machines."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from hypersphere.diagnostics.notable import COPIES, HUB, Notable
from hypersphere.diagnostics.pairs import Classes

QUESTION = "Has it collapsed?"
LONGEST = 60  # characters of a text that names a row
NORMALISED = "Rows were scaled to length one first; all numbers but the lengths are of unit rows."


@dataclass(frozen=True)
class Lengths:
    """Lengths of the raw rows."""

    mean: float
    std: float
    smallest: float
    largest: float


@dataclass(frozen=True)
class View:
    """One set of embeddings by itself; ``MEANINGS`` explains each number."""

    name: str
    lengths: Lengths
    zero_rows: int
    repeated_rows: int
    near_duplicates: float
    dead_dimensions: list[int]
    uniformity: float
    uniformity_of_uniform: float
    wasserstein: float
    energy: float
    least_energy: float
    least_energy_of: str
    anisotropy: float
    first_direction: float
    total_variance: float
    rank: int
    effective_rank: float
    effective_rank_centred: float
    participation_ratio: float
    leading_directions: int
    hubness: float
    never_neighbours: float
    notable: list[Notable]  # hubs, copies and near copies, a few of each
    variance: Tensor  # (D,) of each dimension
    singular_values: Tensor  # of the unit rows, not centred, largest first
    eigenvalues: Tensor  # of their covariance, largest first
    occurrences: Tensor  # (S,) how often each row of the sample is one of another's nearest neighbours
    histogram: Tensor  # of cosines between distinct rows of the sample, 200 bins over [-1, 1]


@dataclass(frozen=True)
class Pairs:
    """The second view beside the first."""

    alignment: float
    positive_cosine: float
    positive_std: float
    negative_cosine: float
    negative_std: float
    distance_gap: float
    hardest_gap: float
    found_first: float
    closer_than_random: float
    apart: float
    positive_histogram: Tensor
    negative_histogram: Tensor


@dataclass(frozen=True)
class Sampling:
    """How many rows were read in full and how many were drawn."""

    rows: int
    sample: int
    wasserstein_rows: int
    seed: int
    neighbours: int

    @property
    def complete(self) -> bool:
        return self.sample == self.rows

    def __str__(self) -> str:
        if self.complete and self.wasserstein_rows == self.rows:
            return f"Exact: all {self.rows:,} rows, all pairs."
        drawn = "all" if self.complete else f"{self.sample:,} rows drawn at random (seed {self.seed}), all"
        words = (
            f"Sums, spectra, repeated rows and positive pairs are of all {self.rows:,} rows; uniformity, energy, "
            f"neighbours and gaps of {drawn} {self.sample * (self.sample - 1) // 2:,} pairs"
        )
        if self.wasserstein_rows < self.sample:
            words += f"; the Wasserstein distance of {self.wasserstein_rows:,} of these rows, drawn at random"
            words += f" (seed {self.seed})" if self.complete else ""
        return f"{words}."


class Finding(NamedTuple):
    """One problem or remark, with its evidence and a remedy."""

    name: str
    grave: bool  # the embeddings should not be used as they are; otherwise a warning
    words: str
    evidence: str
    remedy: str
    collapse: bool = False  # the rows fill hardly any of the dimensions they have, and no labels explain it

    def __str__(self) -> str:
        return f"{self.name}: {self.words} Evidence: {self.evidence} Remedy: {self.remedy}"


@dataclass(frozen=True)
class Diagnosis:
    """Health of embeddings: ``print`` it, read ``collapsed``, ``verdict`` and ``findings``, or take ``to_dict()``."""

    rows: int
    dims: int
    views: tuple[View, ...]
    pairs: Pairs | None
    classes: Classes | None
    sampling: Sampling
    findings: tuple[Finding, ...] = ()

    @property
    def healthy(self) -> bool:
        return not self.findings

    @property
    def uniformity(self) -> float:
        """Mean over the views, as in published tables."""
        return sum(view.uniformity for view in self.views) / len(self.views)

    @property
    def alignment(self) -> float | None:
        return None if self.pairs is None else self.pairs.alignment

    @property
    def collapsed(self) -> bool:
        """Whether all rows lie at a point, on a line, or in a few of their dimensions that no labels explain."""
        return any(finding.collapse for finding in self.findings)

    @property
    def answer(self) -> str:
        """Yes or no to "has it collapsed?", with the reason."""
        return f"{'Yes' if self.collapsed else 'No'}: {self.reason}"

    @property
    def reason(self) -> str:
        """The words of the collapse finding, or the numbers that speak against a collapse."""
        for finding in self.findings:
            if finding.collapse:
                return finding.words
        worst = min(self.views, key=lambda view: view.leading_directions)
        cosine = round(max(view.anisotropy for view in self.views), 2) + 0.0  # -0.00 is 0.00
        return (
            f"75 % of the variance is along {worst.leading_directions} of {min(self.rows - 1, self.dims)} possible "
            f"directions, and two rows have a mean cosine of {cosine:.2f}."
        )

    @property
    def verdict(self) -> str:
        """The names of the findings, the gravest first, or a statement that there are none."""
        if self.healthy:
            return "healthy"
        return "; ".join(finding.name for finding in self.findings)

    def table(self) -> list[tuple[str, list[float], str]]:
        """Name, one value for each view (or one for both), and meaning."""
        lines: list[tuple[str, list[float], str]] = []
        if self.pairs is not None:
            lines += [(word, [float(getattr(self.pairs, key))], said) for key, (word, said) in PAIR_MEANINGS.items()]
        terms = {"view": self.views[0], "D": self.dims, "N": f"{self.rows:,}", "k": self.sampling.neighbours,
                 "most": min(self.rows, self.dims),
                 "spread": " and ".join(f"{view.lengths.std:.4g}" for view in self.views)}  # fmt: skip
        for key, (word, said) in MEANINGS.items():
            values = [_number(getattr(view, key)) for view in self.views]
            lines.append((word, values, said.format(**terms)))
        if self.classes is not None:
            lines += [
                (word, [float(getattr(self.classes, key))], said.format(classes=self.classes))
                for key, (word, said) in CLASS_MEANINGS.items()
            ]
        return lines

    def rows_to_look_at(self) -> list[tuple[str, str, str]]:
        """Kind of the notable rows, their indices, the reason and their texts; hubs only if they are a finding. After a
        collapse all rows are near copies of each other, so only exact copies are listed."""
        hubs = any(finding.name == "hubs" for finding in self.findings)
        notable = []
        for view in self.views:
            for each in view.notable:
                if each.kind == COPIES or (not self.collapsed and (hubs or each.kind != HUB)):
                    of = each.kind if len(self.views) == 1 else f"{each.kind}, {view.name}"
                    notable.append((of, _which(each), _quoted(each.texts)))
        return notable

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and words; NaN and infinity become None."""
        plain: dict[str, Any] = _plain(self)
        return {"collapsed": self.collapsed, "verdict": self.verdict, "healthy": self.healthy,
                "uniformity": self.uniformity, "note": NORMALISED, "sampled": str(self.sampling), **plain}  # fmt: skip

    def __str__(self) -> str:
        names = [view.name for view in self.views]
        lines = [f"{self.rows:,} rows of {self.dims} dimensions" + (f", {len(names)} views" if self.pairs else "")]
        lines += [f"{QUESTION} {self.answer}", f"Verdict: {self.verdict}."]
        lines += [str(finding) for finding in self.findings]
        lines += [" ".join(filter(None, row)) for row in self.rows_to_look_at()]
        heads = names if len(names) > 1 else [""]
        if len(names) > 1:
            lines.append(f"  {'':<28}" + "".join(f"{head:>12}" for head in heads))
        for word, values, said in self.table():
            cells = "".join(f"{shown(value):>12}" for value in values) + " " * 12 * (len(heads) - len(values))
            lines.append(f"  {word:<28}{cells}  {said}")
        return "\n".join([*lines, NORMALISED, str(self.sampling)])


MEANINGS = {
    "uniformity": ("uniformity (t=2)", "uniform rows: {view.uniformity_of_uniform:.4f}; one point: 0"),
    "wasserstein": ("Wasserstein uniformity", "distance from uniform rows' cosines; uniform: 0"),
    "energy": ("hyperspherical energy", "mean 1/distance; {view.least_energy_of}: {view.least_energy:.4f}"),
    "anisotropy": ("anisotropy", "mean cosine of two rows; one point: 1"),
    "total_variance": ("total variance", "sum over dimensions; one point: 0, balanced: 1"),
    "first_direction": ("share of first direction", "of the squared length; uniform rows: 1/{D}"),
    "rank": ("rank", "variances above 1e-5, of {most} possible"),
    "effective_rank": ("effective rank of unit rows", "exp(entropy of singular values), of {most}"),
    "effective_rank_centred": ("effective rank, centred", "the same with the mean row taken away"),
    "participation_ratio": ("participation ratio", "(Σλ)²/Σλ² of the covariance, of {most}"),
    "leading_directions": ("leading directions", "that hold 75 % of the variance, of {most}"),
    "hubness": ("hubness", "skewness of counts as one of {k} nearest"),
    "never_neighbours": ("rows nobody is near", "share of rows in nobody's {k} nearest"),
    "near_duplicates": ("near duplicates", "share with another at cosine above 0.9999"),
    "repeated_rows": ("repeated rows", "equal to an earlier row, of {N}"),
    "zero_rows": ("zero rows", "rows without a direction"),
    "dead_dimensions": ("dead dimensions", "that do not vary, of {D}"),
    "lengths": ("mean length", "of the rows as they came; spread {spread}"),
}
PAIR_MEANINGS = {
    "alignment": ("alignment (α=2)", "mean squared distance of positives; equal: 0"),
    "positive_cosine": ("positive cosine", "mean over all pairs"),
    "negative_cosine": ("negative cosine", "mean over all other pairs"),
    "distance_gap": ("distance gap", "negative less positive distance (d_ij)"),
    "hardest_gap": ("gap to the nearest negative", "the same with the nearest negative"),
    "found_first": ("positive found first", "share nearer than all negatives"),
    "closer_than_random": ("positive closer than random", "than one random negative; guessing: 0.5"),
    "apart": ("distance of the views' means", "one cloud: 0; a modality gap: up to 2"),
}
CLASS_MEANINGS = {
    "within": ("distance within classes", "mean, {classes.classes} classes"),
    "between": ("distance between classes", "mean"),
    "gap": ("class gap", "between less within"),
    "agreement": ("neighbours of one class", "share of those that could be; by chance: {classes.chance:.4f}"),
}


def shown(value: float) -> str:
    """A whole number unchanged, any other number with four significant digits.

    >>> shown(12.0), shown(0.00012345), shown(-3.93251)
    ('12', '0.0001234', '-3.9325')
    """
    if math.isnan(value):
        return "-"
    if value == int(value) if math.isfinite(value) else False:
        return f"{int(value):,}"
    return f"{value:.4f}" if 0.01 <= abs(value) < 1000 else f"{value:.4g}"


def _which(each: Notable) -> str:
    """
    >>> _which(Notable("copies", [3, 7, 9], 12, "12 equal rows", []))
    'rows 3, 7, 9, …: 12 equal rows'
    """
    more = ", …" if each.count > len(each.rows) else ""
    return f"row{'s' * (len(each.rows) > 1)} {', '.join(map(str, each.rows))}{more}: {each.words}"


def _quoted(texts: list[str]) -> str:
    """
    >>> _quoted(["Yes.", "No."])
    '“Yes.” “No.”'
    """
    return " ".join(f"“{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}”" for text in texts)


def _number(value: Any) -> float:
    if isinstance(value, Lengths):
        return value.mean
    return float(len(value)) if isinstance(value, list) else float(value)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Finding):
        return value._asdict()
    if isinstance(value, Tensor):
        return [_plain(each) for each in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
