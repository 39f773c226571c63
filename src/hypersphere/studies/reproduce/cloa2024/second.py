"""Li and Pimentel-Alarcón 2024, Table 4: a second data set, the base at one learning rate and anchors at another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypersphere.figures.rates import Pair, draw_pairs
from hypersphere.studies.reproduce.cloa2024.accuracies import BASES, Accuracies, named, per_cent
from hypersphere.studies.reproduce.cloa2024.gains import estimate
from hypersphere.studies.reproduce.cloa2024.published import RATES4, SHARES, TABLE4, cells4
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.evidence import above, difference, plus_minus, summary
from hypersphere.studies.reproduce.items import Finding

TOPS = (1, 5)
MOST_WORSE = 1  # cells that are notably worse, as the text claims

Cell = tuple[str, float, int]  # base, share of the labels, top


def table4(held: Mapping[str, Held]) -> Finding:
    """Top-1 and top-5 of four bases at three shares of the labels; in how many cells are anchors better, or worse?"""
    contest = held["cloa-second"]
    own = Accuracies(contest.comparison)
    judged = {
        pair: _judge(own, *pair) for pair in [(RATES4[False], RATES4[True]), *((rate, rate) for rate in own.rates)]
    }
    as_published = judged[RATES4[False], RATES4[True]]
    better, worse, open_ = _count(as_published)
    cells, published = len(as_published), cells4()
    clauses = {
        f"clearly better in at least half of the {cells} cells": _at_least(better, open_, cells // 2),
        f"clearly worse in at most {MOST_WORSE} cell": _at_least(cells - worse - open_, open_, cells - MOST_WORSE),
    }
    return Finding(
        claim="On CIFAR-100 (top-1 and top-5 of four bases with 10, 50 and 100 % of the labels: 24 cells; the bases at "
        "rate 0.01, with anchors at rate 1) anchors are clearly better in 12 cells and notably worse in one.",
        measured=f"{_measured(own, judged)} {own.without_score(own.shares)}",
        clauses=clauses,
        published=f"better in {published[0]} of 24 cells, worse in {published[1]} (12 and 1 in the text)",
        here=f"better in {better} of {cells} cells, worse in {worse}, {open_} undecided",
        fault=_fault(contest, own, judged, clauses),
        errata=f"The text has 12 cells clearly better and one notably worse; the table has {published[0]} better and "
        f"{published[1]} worse. Top-1 equals top-5 in every cell of its Barlow Twins, a run that learned nothing. E10: "
        "a ResNet-50 without its last layer gives 2048 features, not 512.",
        data={"table4": list(_rows(own)), "cells": list(_cell_rows(own, judged))},
        figures={"table4": _figure(own)},
    )


def _judge(own: Accuracies, alone: float, anchored: float) -> dict[Cell, bool | None]:
    """For every cell whether anchors at one rate are above the base at another."""
    return {
        (base, share, top): above(
            own.accuracy(base, True, anchored, share, top), own.accuracy(base, False, alone, share, top)
        )
        for base in BASES
        for share in own.shares
        for top in TOPS
    }


def _count(judged: Mapping[Cell, bool | None]) -> tuple[int, int, int]:
    """Cells that are better, worse, undecided."""
    values = list(judged.values())
    return values.count(True), values.count(False), values.count(None)


def _at_least(count: int, undecided: int, wanted: int) -> bool | None:
    return True if count >= wanted else None if count + undecided >= wanted else False


def _measured(own: Accuracies, judged: Mapping[tuple[float, float], Mapping[Cell, bool | None]]) -> str:
    said = []
    for (alone, anchored), cells in judged.items():
        where = f"both at rate {alone:g}" if alone == anchored else (
            f"as in the paper (bases at rate {alone:g}, anchors at rate {anchored:g})")  # fmt: skip
        better, worse, open_ = _count(cells)
        said.append(f"{where}: better in {better}, worse in {worse}, undecided in {open_} of {len(cells)} cells")
    share = own.few
    top1 = [
        f"{base} {plus_minus(own.accuracy(base, False, RATES4[False], share), 1)} and "
        f"{plus_minus(own.accuracy(base, True, RATES4[True], share), 1)}"
        for base in BASES
    ]
    return (
        f"Anchors against the base, by 95 % intervals paired by seed: {'; '.join(said)}. Top-1 in per cent with "
        f"{per_cent(share)} of the labels, base and anchors at the paper's rates: {'; '.join(top1)}. Chance is "
        f"{own.chance():g} %."
    )


def _fault(
    held: Held,
    own: Accuracies,
    judged: Mapping[tuple[float, float], Mapping[Cell, bool | None]],
    clauses: Mapping[str, bool | None],
) -> str:
    """Whether the rate or the anchors make the difference, and whether the runs at rate 1 diverged."""
    if False not in clauses.values():
        return ""
    same = {alone: _count(cells) for (alone, anchored), cells in judged.items() if alone == anchored}
    words = [f"both at rate {rate:g}, anchors are better in {better} cells and worse in {worse}"
             for rate, (better, worse, _) in same.items()]  # fmt: skip
    lost = sum(own.unscored(own.few, base, True, RATES4[True]) for base in BASES)
    words.append(f"{lost} runs with anchors at rate {RATES4[True]:g} have no score of their own")
    if any(better > worse for better, worse, _ in same.values()):
        start = "The claim, as far as its learning rates go: at a common rate anchors do help"
    elif held.scale == "full":
        start = "The claim, or what the paper leaves open (momentum, decay, schedule)"
    else:
        start = "Claim or scale, which these runs cannot tell apart: another data set, a smaller network, fewer steps"
    return f"{start}. Evidence: {'; '.join(words)}. By its own table the paper has {cells4()[1]} worse cells, not one."


def _rows(own: Accuracies) -> Iterator[dict[str, Any]]:
    """Every accuracy, at both rates, beside the published one."""
    for base in BASES:
        for anchors in (False, True):
            for rate in own.rates:
                for share in own.shares:
                    for top in TOPS:
                        accuracy = summary(own.accuracy(base, anchors, rate, share, top))
                        known = _published(base, anchors, share, top) if rate == RATES4[anchors] else None
                        yield {
                            "method": named(base, anchors), "rate": rate, "labels": share, "top": top,
                            "seeds": accuracy.count if accuracy else 0, "accuracy": accuracy.mean if accuracy else None,
                            "low": accuracy.low if accuracy else None, "high": accuracy.high if accuracy else None,
                            "without_score": own.unscored(share, base, anchors, rate), "published_cifar100": known,
                        }  # fmt: skip


def _cell_rows(
    own: Accuracies, judged: Mapping[tuple[float, float], Mapping[Cell, bool | None]]
) -> Iterator[dict[str, Any]]:
    """The difference in every cell, at every pair of rates."""
    words = {True: "better", False: "worse", None: "undecided"}
    for (alone, anchored), cells in judged.items():
        for (base, share, top), holds in cells.items():
            with_anchors = own.accuracy(base, True, anchored, share, top)
            gain = difference(with_anchors, own.accuracy(base, False, alone, share, top))
            pair = _published(base, False, share, top), _published(base, True, share, top)
            known = None if pair[0] is None or pair[1] is None or alone == anchored else round(pair[1] - pair[0], 2)
            yield {
                "base": base, "labels": share, "top": top, "rate_alone": alone, "rate_anchors": anchored,
                "difference": gain.mean if gain else None, "low": gain.low if gain else None,
                "high": gain.high if gain else None, "anchors": words[holds], "published_cifar100": known,
            }  # fmt: skip


def _published(base: str, anchors: bool, share: float, top: int) -> float | None:
    return TABLE4[base, anchors][SHARES.index(share)][TOPS.index(top)] if share in SHARES else None


def _figure(own: Accuracies) -> Any:
    """Top-1 above, top-5 below; a column for each share. The published numbers are of CIFAR-100."""
    panels = {}
    for top in TOPS:
        for share in own.shares:
            panels[f"top-{top}, {per_cent(share)} of the labels"] = [_pair(own, base, share, top) for base in BASES]
    return draw_pairs(panels, "accuracy, % (published: CIFAR-100)", columns=len(own.shares))


def _pair(own: Accuracies, base: str, share: float, top: int) -> Pair:
    alone, anchored = (estimate(own.accuracy(base, each, RATES4[each], share, top)) for each in (False, True))
    known = _published(base, False, share, top), _published(base, True, share, top)
    return Pair(base, alone, anchored, None if known[0] is None or known[1] is None else (known[0], known[1]))
