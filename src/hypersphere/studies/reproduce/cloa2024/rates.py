"""Li and Pimentel-Alarcón 2024, Figures 1 to 3: accuracy and variance over learning rates, with and without anchors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hypersphere.figures.rates import Line, Point, draw_phases, draw_rates
from hypersphere.studies.reproduce.cloa2024.accuracies import BASES, ROWS, Accuracies, named, per_cent
from hypersphere.studies.reproduce.cloa2024.published import PHASES
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import (
    Scores,
    above,
    difference,
    holds_for_all,
    plus_minus,
    summary,
)
from hypersphere.studies.reproduce.items import Finding

ALIKE = 2.0  # points: accuracies that differ by less are alike
VANISHED = 0.01  # of the variance at the best rate; a smaller variance has collapsed
MILD = "every base is best at a rate from 1e-4 to 1e-3"
LOST = "some runs diverged (chance)"


def fig1(held: Mapping[str, Held]) -> Finding:
    """InfoNCE alone over the learning rates: does accuracy stay, rise and fall?"""
    own = Accuracies(held["cloa-rates"].comparison)
    share, rates = own.few, own.rates
    by_rate = {rate: own.accuracy("InfoNCE", False, rate, share) for rate in rates}
    low, high = rates[0], rates[-1]
    best, inner = own.best("InfoNCE", False), own.best("InfoNCE", False, rates[1:])
    outer = own.best("InfoNCE", False, rates[:-1])
    clauses = {
        f"flat: the two lowest rates are within {ALIKE:g} points of each other": alike(by_rate[rates[1]], by_rate[low]),
        "rise: the best higher rate is above the lowest": above(by_rate.get(inner or 0.0, {}), by_rate[low]),
        "fall: the highest rate is below the best lower one": above(by_rate.get(outer or 0.0, {}), by_rate[high]),
    }
    runs = [(rate, value) for rate, scores in by_rate.items() for value in scores.values()]
    levels = {"chance": own.chance()} | ({"untrained encoder": value.mean} if (value := summary(own.untrained(share)))
                                         else {})  # fmt: skip
    points = [point(rate, scores, own.unscored(share, "InfoNCE", False, rate)) for rate, scores in by_rate.items()]
    best_words = f"{plus_minus(by_rate[best], 1)} % at {best:g}" if best is not None else "no rate to choose"
    ends = f"{plus_minus(by_rate[low], 1)} % at {low:g}", f"{plus_minus(by_rate[high], 1)} % at {high:g}"
    return Finding(
        claim="A sketch: as the learning rate of a contrastive loss grows over decades, accuracy first stays flat, "
        "then rises, then falls. The later figures put the phases at 1e-7 to 1e-5, 1e-4 to 1e-3 and 1e-2 to 1.",
        measured=f"InfoNCE with {per_cent(share)} of the labels: {ends[0]}, {best_words} (the best by validation), "
        f"{ends[1]}; an untrained encoder has {plus_minus(own.untrained(share), 1)} %, a guess {own.chance():g} %. "
        f"{own.without_score([share], [('InfoNCE', False)])}",
        clauses=clauses,
        published="flat, rise, fall",
        here=f"{ends[0]}, best {best_words}, {ends[1]}",
        fault=_shape_fault(held["cloa-rates"], own, clauses),
        data={"rates": [_row(own, "InfoNCE", False, rate, share) for rate in rates]},
        figures={"phases": draw_phases("InfoNCE", points, runs, levels, PHASES,
                                       f"top-1 with {per_cent(share)} of the labels, %")},
    )  # fmt: skip


def fig2(held: Mapping[str, Held]) -> Finding:
    """Accuracy and total variance of every base over the rates, with and without anchors."""
    own = Accuracies(held["cloa-rates"].comparison)
    share, high = own.few, own.rates[-1]
    collapsed = own.accuracy("InfoNCE", False, high, share)
    left = _variance_left(own)
    clauses = {
        MILD: holds_for_all([_best_is_mild(own, base) for base in BASES]),
        **_shape_clauses(own, share),
        f"InfoNCE at rate {high:g} is within {ALIKE:g} points of chance": alike(
            collapsed, dict.fromkeys(collapsed, own.chance())
        ),
        f"InfoNCE's variance at rate {high:g} is below {per_cent(VANISHED)} of that at its best lower one": above(
            dict.fromkeys(left, VANISHED), left
        ),
        f"at rate {high:g} anchors have the larger variance, for every base": holds_for_all(
            [above(_log(own.variance(base, True, high)), _log(own.variance(base, False, high))) for base in BASES]
        ),
    }
    return Finding(
        claim="With 10 % of the labels every base stagnates up to a rate of 1e-5, is best at 1e-4 to 1e-3 and "
        "collapses from 1e-2 on: at rate 1 InfoNCE has zero variance and 10 % accuracy. With anchors accuracy keeps "
        "rising with the rate and the variance recovers.",
        measured=f"{_peaks(own, share)} InfoNCE's variance at rate {high:g} is {_share_words(left)} of that at "
        f"its best lower rate. {own.without_score([share])} A run without a score has no variance either.",
        clauses=clauses,
        errata="E10: the paper's text cites the plot of the variance as Figure 1; it is Figure 2.",
        published="bases collapse from 1e-2 on; with anchors accuracy rises up to rate 1",
        here=_here(own, share),
        fault=_shape_fault(held["cloa-rates"], own, clauses),
        data={"rates": [row for base in BASES for row in _rows(own, base, share)]},
        figures={"rates": draw_rates([_accuracy_line(own, share), _variance_line(own)], LOST)},
    )


def fig3(held: Mapping[str, Held]) -> Finding:
    """The same accuracies with more labels."""
    own = Accuracies(held["cloa-rates"].comparison)
    shares = [share for share in own.shares if share != own.few] or own.shares
    clauses = {
        f"{per_cent(share)}: {clause}": holds
        for share in shares
        for clause, holds in _shape_clauses(own, share).items()
    }
    return Finding(
        claim="With 50 and 100 % of the labels for the classifier the picture is that of 10 %: each base falls at high "
        "rates, while with anchors (which see 10 % of the labels) accuracy keeps rising.",
        measured=f"{' '.join(_peaks(own, share) for share in shares)} {own.without_score(shares)}",
        clauses=clauses,
        published="bases collapse from 1e-2 on; with anchors accuracy rises up to rate 1",
        here=_here(own, shares[-1]),
        fault=_shape_fault(held["cloa-rates"], own, clauses),
        data={"rates": [row for share in shares for base in BASES for row in _rows(own, base, share)]},
        figures={"rates": draw_rates([_accuracy_line(own, share) for share in shares], LOST)},
    )


def alike(first: Scores, second: Scores, margin: float = ALIKE) -> bool | None:
    """Whether two accuracies differ by less than a margin: the 95 % interval of the paired difference lies within it.

    >>> alike({1: 10.0, 2: 10.2}, {1: 10.0, 2: 10.1}), alike({1: 10.0, 2: 10.2}, {1: 30.0, 2: 30.1})
    (True, False)
    """
    delta = difference(first, second)
    if delta is None or delta.count < 2:
        return None
    if -margin < delta.low and delta.high < margin:
        return True
    return False if delta.low > margin or delta.high < -margin else None


def point(rate: float, scores: Scores, lost: int = 0) -> Point:
    estimate = summary(scores)
    return Point(rate, estimate.mean, estimate.low, estimate.high, lost > 0) if estimate else Point(rate, math.nan)


def _shape_clauses(own: Accuracies, share: float) -> dict[str, bool | None]:
    """The claims on accuracy at any share of the labels."""
    high, strong = own.rates[-1], [rate for rate in own.rates if rate >= PHASES["collapse"][0]]

    def against_lower(base: str, anchors: bool) -> tuple[Scores, Scores]:
        lower = own.best(base, anchors, own.rates[:-1])
        return own.accuracy(base, anchors, high, share), own.accuracy(base, anchors, lower, share)

    falls = [above(lower, highest) for highest, lower in (against_lower(base, False) for base in BASES)]
    rises = [above(*against_lower(base, True)) for base in BASES]
    ahead = [
        above(own.accuracy(base, True, rate, share), own.accuracy(base, False, rate, share))
        for base in BASES for rate in strong
    ]  # fmt: skip
    return {
        f"every base falls: rate {high:g} is below the best lower one": holds_for_all(falls),
        f"with anchors accuracy rises up to rate {high:g}, for every base": holds_for_all(rises),
        "from rate 0.01 on anchors are above the base, at every rate": holds_for_all(ahead),
    }


def _best_is_mild(own: Accuracies, base: str) -> bool | None:
    """Whether the best rate from 1e-4 to 1e-3 is above the best of the others."""
    first, last = PHASES["mild"]
    mild = [rate for rate in own.rates if first <= rate <= last]
    others = [rate for rate in own.rates if rate not in mild]
    within, outside = (own.accuracy(base, False, own.best(base, False, each), own.few) for each in (mild, others))
    return above(within, outside)


def _variance_left(own: Accuracies) -> dict[int, float]:
    """InfoNCE's variance at the highest rate over that at its best lower rate, by seed."""
    best = own.best("InfoNCE", False, own.rates[:-1])
    before = own.variance("InfoNCE", False, best) if best is not None else {}
    after = own.variance("InfoNCE", False, own.rates[-1])
    return {seed: after[seed] / before[seed] for seed in before if seed in after and before[seed] > 0}


def _share_words(values: Scores) -> str:
    estimate = summary(values)
    return f"{estimate.mean:.2g} ({estimate.low:.2g} to {estimate.high:.2g})" if estimate else "–"


def _log(values: Scores) -> dict[int, float]:
    return {seed: math.log10(max(value, 1e-12)) for seed, value in values.items()}


def _peaks(own: Accuracies, share: float) -> str:
    """Best and highest rate of every row, in words."""
    words = []
    for row in ROWS:
        if (best := own.best(*row)) is not None:
            rates = dict.fromkeys((best, own.rates[-1]))
            each = [f"{plus_minus(own.accuracy(*row, rate, share), 1)} at {rate:g}" for rate in rates]
            words.append(f"{named(*row)} {', '.join(each)}")
    return (
        f"Accuracy in per cent with {per_cent(share)} of the labels, at the rate that is best by validation and at the "
        f"highest: {'; '.join(words) or 'none yet'}."
    )


def _here(own: Accuracies, share: float) -> str:
    high = own.rates[-1]
    alone, anchored = (plus_minus(own.accuracy("InfoNCE", each, high, share), 1) for each in (False, True))
    return f"InfoNCE at rate {high:g}: {alone} %, with anchors {anchored} % ({per_cent(share)} of the labels)"


def _shape_fault(held: Held, own: Accuracies, clauses: Mapping[str, bool | None]) -> str:
    """Scale or claim at fault, with the evidence of the runs."""
    failing = [clause for clause, holds in clauses.items() if holds is False]
    if not failing:
        return ""
    bests = {base: best for base in BASES if (best := own.best(base, False)) is not None}
    words = [f"the bases are best at {', '.join(f'{rate:g} ({base})' for base, rate in bests.items())}"]
    if left := _variance_left(own):
        words.append(f"at rate {own.rates[-1]:g} InfoNCE keeps {_share_words(left)} of its variance")
    anchored = [named(base, True) for base in BASES
                if (best := own.best(base, True)) is not None and best != own.rates[-1]]  # fmt: skip
    words.append(f"with anchors the highest rate is not the best for {', '.join(anchored) or 'no base'}")
    late = MILD in failing and any(rate > PHASES["mild"][1] for rate in bests.values())
    if held.scale == "full":
        start = "Claim, or what the paper leaves open (momentum, decay, schedule, temperature)"
    elif late:
        start = "Scale, for the place of the phases: in so few steps a base needs a higher rate to learn"
    else:
        start = "Scale or claim, which these runs cannot tell apart"
    if held.scale != "full" and late and len(failing) > 1:
        start += ". The rest: scale or claim, which these runs cannot tell apart"
    return f"{start}. Evidence: {'; '.join(words)}."


def _rows(own: Accuracies, base: str, share: float) -> list[dict[str, Any]]:
    return [_row(own, base, anchors, rate, share) for anchors in (False, True) for rate in own.rates]


def _row(own: Accuracies, base: str, anchors: bool, rate: float, share: float) -> dict[str, Any]:
    accuracy, variance = own.accuracy(base, anchors, rate, share), own.variance(base, anchors, rate)
    line: dict[str, Any] = {"base": base, "anchors": anchors, "rate": rate, "labels": share, "seeds": len(accuracy)}
    line["without_score"] = own.unscored(share, base, anchors, rate)
    for name, estimate in (("top1", summary(accuracy)), ("variance", summary(variance))):
        line[name] = estimate.mean if estimate else None
        line[f"{name}_low"], line[f"{name}_high"] = (estimate.low, estimate.high) if estimate else (None, None)
    return line


def _curves(points: Mapping[tuple[str, bool], Sequence[Point]]) -> dict[str, dict[str, Sequence[Point]]]:
    panels: dict[str, dict[str, Sequence[Point]]] = {base: {} for base in BASES}
    for (base, anchors), each in points.items():
        panels[base]["with anchors" if anchors else "base alone"] = each
    return panels


def _accuracy_line(own: Accuracies, share: float) -> Line:
    def at(base: str, anchors: bool, rate: float) -> Point:
        return point(rate, own.accuracy(base, anchors, rate, share), own.unscored(share, base, anchors, rate))

    points = {row: [at(*row, rate) for rate in own.rates] for row in ROWS}
    label = f"top-1, %\n({per_cent(share)} of the labels)"
    return Line(label, _curves(points), level=own.chance(), about="chance")


def _variance_line(own: Accuracies) -> Line:
    points = {row: [point(rate, own.variance(*row, rate)) for rate in own.rates] for row in ROWS}
    return Line("total variance of\nthe embeddings", _curves(points), log=True)
