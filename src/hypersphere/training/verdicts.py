"""Verdicts on a run that has gone wrong: a sentence, the evidence in numbers, and what to try.

``judge`` reads only the measurements of a run so far, so it can be repeated on any metrics.jsonl.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hypersphere.diagnostics.thresholds import (
    COLLAPSED_FALL,
    COLLAPSED_SHARE,
    FEWEST_DIMENSIONS,
    FUSED_COSINE,
    FUSED_FALL,
    FUSED_RANK,
    LOW_PARTICIPATION,
)
from hypersphere.training.journal import Record


@dataclass(frozen=True)
class Thresholds:
    """The values at which a number becomes a verdict, with their reasons.

    fused_*, collapsed_*, fewest_dimensions: see hypersphere.diagnostics.thresholds, which ``diagnose`` reads too.
    dissipated: share of anchors with gradient below which a batch teaches next to nothing.
    small_gap: cosine between positive and hardest negative, median over anchors. Nie's MPT is too early with m = 0.10
        (Fig. 3c) and best from 0.20 to 0.35, as Li's gates are (0.27 to 0.37); InfoNCE's edge τ log n is 0.21 to 0.24.
    never, never_share: mean dissipation and share of anchors with gradient that count as "no anchor has stopped".
    large_gap: far beyond every margin that was best in either paper; Nie's m = 0.80 overfits (Fig. 3e).
    turned, least_fall: rise of a held-out InfoNCE above its best that noise does not explain, as a share of its earlier
        fall, or of half a nat if it fell less.
    settled: number of consecutive measurements that must agree, so that a brief transition is no verdict. For
        overfitting they must follow the best one, and their mean is compared. confirmed: the same for urgent verdicts.
    alive: share of anchors with gradient above which the loss cannot be the cause of a zero gradient.
    dead, zero: gradient norm as a share of the largest the run has had (float32 keeps seven digits), and in itself.
    exploded_embedding, exploded_gradient: growth over the first measurement, and over the largest of the first three.
        Raw rows grow a few times longer in a healthy run too (the gradient is orthogonal to them); gradients vary more.
    """

    fused_cosine: float = FUSED_COSINE
    fused_rank: float = FUSED_RANK
    fused_fall: float = FUSED_FALL
    collapsed_participation: float = LOW_PARTICIPATION.value
    collapsed_share: float = COLLAPSED_SHARE
    collapsed_fall: float = COLLAPSED_FALL
    fewest_dimensions: int = FEWEST_DIMENSIONS
    dissipated: float = 0.05
    small_gap: float = 0.15
    never: float = 0.9
    never_share: float = 0.95
    large_gap: float = 0.5
    turned: float = 0.1
    least_fall: float = 0.5
    settled: int = 3
    confirmed: int = 2
    alive: float = 0.5
    dead: float = 1e-7
    zero: float = 1e-12
    exploded_embedding: float = 100.0
    exploded_gradient: float = 1000.0


THRESHOLDS = Thresholds()


@dataclass(frozen=True)
class Verdict:
    """A name, a sentence with the evidence, and what to try."""

    name: str
    step: int
    sentence: str
    advice: str

    def __str__(self) -> str:
        return f"{self.name} at step {self.step}: {self.sentence} Try: {self.advice}"


class History:
    """The records of a run by split; a record is one line of metrics.jsonl."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.training = [record for record in records if record["split"] == "training"]
        self.held_out = [record for record in records if record["split"] == "held_out"]

    @property
    def last(self) -> Record:
        """The latest training record, or the latest held-out one if nothing else is measured."""
        return (self.training or self.held_out)[-1]

    def series(self, name: str) -> list[float]:
        """A number over the run, from the same split as ``last``; NaN where it is missing."""
        return [_get(record, name) for record in self.training or self.held_out]

    @property
    def whole(self) -> list[Record]:
        """The measurements that have an anatomy."""
        return [record for record in self.training or self.held_out if not record.get("brief")]

    def lately(self, count: int, holds: Callable[[Record], bool], whole: bool = False) -> bool:
        """Whether a condition holds for each of the latest measurements, or of the latest with an anatomy."""
        records = (self.whole if whole else self.training or self.held_out)[-count:]
        return len(records) == count and all(holds(record) for record in records)


def judge(history: Sequence[Record], thresholds: Thresholds = THRESHOLDS) -> list[Verdict]:
    """The verdicts on a run from its measurements so far; an empty list if all is well.

    >>> healthy = {"step": 10, "split": "training", "effective_rank": 20.0, "rows": 64, "dimension": 32}
    >>> judge([healthy])
    []
    >>> point = {**healthy, "positive_absolute": 1.0, "negative_absolute": 1.0, "effective_rank": 1.0}
    >>> [verdict.name for verdict in judge([healthy, {**point, "step": 20}, {**point, "step": 30}])]
    ['over-fusion']
    """
    run = History(history)
    if not run.training and not run.held_out:  # only scores were recorded
        return []
    verdicts = [verdict for check in CHECKS if (verdict := check(run, thresholds)) is not None]
    if any(verdict.name == "over-fusion" for verdict in verdicts):  # the others then repeat it
        verdicts = [verdict for verdict in verdicts if verdict.name in ("over-fusion", "exploding norms")]
    return verdicts


def suspect(history: Sequence[Record], thresholds: Thresholds = THRESHOLDS) -> list[str]:
    """Problems that the last measurement of a run shows, but too few before it for a verdict, in sentences.

    Overfitting is left out: it needs several measurements. So are exploding norms: one measurement gives a verdict.
    """
    if not history:
        return []
    sure = {verdict.name for verdict in judge(history, thresholds)} | {"overfitting", "exploding norms"}
    if "over-fusion" in sure:
        return []
    verdicts = judge(history, replace(thresholds, settled=1, confirmed=1))
    return [f"Perhaps {each} Too few measurements show it to be sure." for each in verdicts if each.name not in sure]


def shortage(history: Sequence[Record], thresholds: Thresholds = THRESHOLDS) -> list[str]:
    """Verdicts that were impossible because the run has too few measurements, in a sentence."""
    run, needed = History(history), thresholds.settled
    seen, whole = len(run.training or run.held_out), len(run.whole)
    if not seen or whole >= needed:
        return []
    what, count = ("dissipation", whole) if seen >= needed else ("the run", seen)
    if seen < needed and judge(history, thresholds):  # some verdicts need fewer
        return []
    times = "once" if count == 1 else f"{count} times"
    return [
        f"No verdict on {what}: it was measured {times}, and a verdict takes {needed} measurements in a row; more "
        "steps, or fewer between measurements (monitor.every), give more of them."
    ]


def over_fusion(run: History, limits: Thresholds) -> Verdict | None:
    """Rank-1: every row is ±z*, where the gradient of any loss of cosines vanishes (CLOA, Theorem 3.1)."""
    lowest = max(limits.fused_rank, limits.fused_fall * _largest(run.series("effective_rank")))

    def fused(record: Record) -> bool:
        cosine = min(_get(record, "positive_absolute"), _get(record, "negative_absolute"))
        return cosine > limits.fused_cosine and _get(record, "effective_rank") < lowest

    if not run.lately(limits.confirmed, fused):
        return None
    last = run.last
    positive, negative, rank = (_get(last, k) for k in ("positive_absolute", "negative_absolute", "effective_rank"))
    return Verdict(
        "over-fusion", last["step"],
        f"all embeddings are about to be one, up to sign: |cos| is {positive:.3f} for positives and {negative:.3f} for "
        f"negatives, effective rank {rank:.2f} of {_reachable(last)}. The nearer they come, the weaker the gradient of "
        f"any loss of cosines{_norm(last)}.",
        "a learning rate ten times smaller, a warm-up, gradient clipping; an objective that weighs all negatives "
        "(infonce) for one that sees the hardest alone; if labels are known, cloa.",
    )  # fmt: skip


def dimensional_collapse(run: History, limits: Thresholds) -> Verdict | None:
    """The embeddings use few of their dimensions."""
    last, reachable = run.last, _reachable(run.last)
    if reachable < limits.fewest_dimensions:
        return None
    for name, lowest in (
        ("participation", limits.collapsed_participation),
        ("effective_rank", limits.collapsed_share * reachable),
    ):
        highest = _largest(run.series(name))
        if _largest(run.series(name)[-limits.settled :]) < min(lowest, limits.collapsed_fall * highest):
            break
    else:
        return None
    said = {"participation": "directions that carry the variance", "effective_rank": "effective rank"}[name]
    return Verdict(
        "dimensional collapse", last["step"],
        f"the embeddings use few of the {reachable} dimensions they could: {said} {_get(last, name):.1f} (it was "
        f"{highest:.1f}), total variance {_get(last, 'total_variance'):.2f}.",
        "more weight on spreading out (uniformity, energy, covariance) or a lower temperature, a smaller learning "
        "rate, weaker augmentation, a projection head used in training only.",
    )  # fmt: skip


def dissipation_too_early(run: History, limits: Thresholds) -> Verdict | None:
    """The anchors no longer receive gradient although positives and negatives are hardly separated."""

    def stopped(record: Record) -> bool:
        share, gap = _get(record, "with_gradient"), _get(record, "hardest_gap_50")
        return share < limits.dissipated and gap < limits.small_gap

    if not run.lately(limits.settled, stopped, whole=True):
        return None
    last = run.whole[-1]
    share, gap = _get(last, "with_gradient"), _get(last, "hardest_gap_50")
    return Verdict(
        "dissipation too early", last["step"],
        f"{share:.0%} of the anchors still receive gradient, but the positive is only {gap:.3f} closer (in cosine, "
        f"median) than the hardest negative; uniformity stands at {_get(last, 'uniformity'):.2f}.",
        "a larger margin or a higher temperature (hypersphere.anatomy.advise measures a fitting one), harder negatives "
        "or a larger batch.",
    )  # fmt: skip


def dissipation_never(run: History, limits: Thresholds) -> Verdict | None:
    """The loss still pushes apart pairs that have long been separated."""

    def restless(record: Record) -> bool:
        moving = _get(record, "with_gradient") >= limits.never_share and _get(record, "dissipation") >= limits.never
        return moving and _get(record, "hardest_gap_50") > limits.large_gap

    if not run.lately(limits.settled, restless, whole=True):
        return None
    last = run.whole[-1]
    share, gate, gap = (_get(last, name) for name in ("with_gradient", "dissipation", "hardest_gap_50"))
    return Verdict(
        "dissipation never", last["step"],
        f"the positive is {gap:.2f} closer (in cosine, median) than the hardest negative, and still {share:.0%} of the "
        f"anchors receive gradient, {gate:.0%} of it undiminished: nothing stops the loss, which ends in "
        "overfitting.",
        "a smaller margin or a lower temperature, or an objective that dissipates (infonce, dcl_plus, mpt, met, mat) "
        "in place of one that cannot (dcl, dhel, kcl, align_uniform).",
    )  # fmt: skip


def overfitting(run: History, limits: Thresholds) -> Verdict | None:
    """Held-out losses rise while training losses fall (Nie et al. 2023, Fig. 1)."""
    turned = {name: turn for name in ("infonce", "objective") if (turn := _turn(run, name, limits)) is not None}
    if "infonce" not in turned:  # a modified objective's value has no meaning here; InfoNCE's always has
        return None
    step, best, now, then, trained = turned["infonce"]
    both = " The objective itself did the same." if "objective" in turned else ""
    spread = [f"{name} {_get(run.held_out[-1], name):.2f}" for name in ("alignment", "uniformity")]
    return Verdict(
        "overfitting", run.last["step"],
        f"held-out InfoNCE was best at step {step} ({best:.3f}) and has risen to {now:.3f}, while that of the training "
        f"batch went from {then:.3g} to {trained:.3g}.{both} Held-out {' and '.join(spread)} now.",
        f"the checkpoint of step {step}, more data or stronger augmentation, dropout or weight decay, a smaller margin "
        "or a lower temperature, so that anchors that are well placed are left alone.",
    )  # fmt: skip


def dead_gradient(run: History, limits: Thresholds) -> Verdict | None:
    """The anchors have gradient, but none of it reaches a parameter."""
    largest = _largest(run.series("gradient_norm"))
    low = max(limits.zero, limits.dead * largest)

    def dead(record: Record) -> bool:
        return _get(record, "with_gradient") >= limits.alive and _get(record, "gradient_norm") <= low

    if not run.lately(limits.confirmed, dead, whole=True):
        return None
    last = run.whole[-1]
    share, norm = _get(last, "with_gradient"), _get(last, "gradient_norm")
    was = f"it was {largest:.3g}" if largest > low else "it has never been anything else"
    return Verdict(
        "dead gradient", last["step"],
        f"{share:.0%} of the anchors receive gradient, but that of the parameters is {norm:.3g} ({was}): it is "
        "lost inside the encoder.",
        "units that are not dead or saturated (a smaller learning rate, another initialisation, batch norm), "
        "parameters that are not frozen, embeddings that are not detached, a loss scale that does not underflow.",
    )  # fmt: skip


def exploding_norms(run: History, limits: Thresholds) -> Verdict | None:
    """Embeddings or gradients have grown out of all proportion, or are no longer finite."""
    said = []
    for name, words, times, first in (
        ("embedding_norm", "the mean length of the raw embeddings", limits.exploded_embedding, 1),
        ("gradient_norm", "the norm of the gradient", limits.exploded_gradient, limits.settled),
    ):
        values = [value for value in run.series(name) if not math.isnan(value)]
        if not values:
            continue
        usual = _largest(values[:first])
        if not values[-1] < 1e300:
            said.append(f"{words} is not finite")
        elif values[-1] > times * usual > 0:
            said.append(f"{words} is {values[-1]:.3g}, {values[-1] / usual:.3g} times what it was at the start")
    if not said:
        return None
    return Verdict(
        "exploding norms", run.last["step"], f"{' and '.join(said)}.",
        "a smaller learning rate, a warm-up, gradient clipping, weight decay; in half precision bfloat16 for float16.",
    )  # fmt: skip


CHECKS: tuple[Callable[[History, Thresholds], Verdict | None], ...] = (
    over_fusion,
    dimensional_collapse,
    dissipation_too_early,
    dissipation_never,
    overfitting,
    dead_gradient,
    exploding_norms,
)


def _turn(run: History, name: str, limits: Thresholds) -> tuple[int, float, float, float, float] | None:
    """Step and value of the best held-out measurement, the mean of the latest ones, and the training values at both
    times. None unless the held-out value has risen and the training value has fallen."""
    held = [(r["step"], _get(r, name)) for r in run.held_out if math.isfinite(_get(r, name))]
    trained = [(r["step"], _get(r, name)) for r in run.training if math.isfinite(_get(r, name))]
    if len(held) <= limits.settled + 1 or not trained:
        return None
    place = min(range(len(held)), key=lambda k: held[k][1])
    step, best = held[place]
    after = held[place + 1 :]
    if len(after) < limits.settled:
        return None
    now = sum(value for _, value in after[-limits.settled :]) / limits.settled
    fallen = max(value for _, value in held[: place + 1]) - best
    if not now - best > limits.turned * max(fallen, limits.least_fall):
        return None
    then = min(trained, key=lambda each: abs(each[0] - step))[1]
    latest = [value for at, value in trained if at > step][-limits.settled :]
    mean = sum(latest) / len(latest) if latest else math.nan
    return (step, best, now, then, mean) if mean < then else None


def _get(record: Record, name: str) -> float:
    return float(record.get(name, math.nan))


def _reachable(record: Record) -> int:
    """The largest rank a batch of this shape can have; 0 if the shape was not written down."""
    return int(min(record.get("rows", 0), record.get("dimension", 0)))


def _largest(values: Sequence[float]) -> float:
    return max((value for value in values if math.isfinite(value)), default=math.nan)


def _norm(record: Record) -> str:
    norm = _get(record, "gradient_norm")
    return f" (its norm now: {norm:.2g})" if math.isfinite(norm) else ""
