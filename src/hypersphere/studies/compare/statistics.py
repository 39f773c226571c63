"""Statistics of scores over seeds: intervals, paired tests and their floor, groups, luck in tuning.

Scores are paired by seed: runs with the same seed share their split of the data, their first weights and their batches,
so the difference of two objectives is taken seed by seed. Higher is better throughout.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.05  # of every test; an interval covers 1 - LEVEL
POWER = 0.8  # with which `seeds_to_decide` finds a difference
MOST_SEEDS = 200  # beyond that a difference is not worth the runs
RESAMPLES = 10_000
FEWEST = 6  # fewest values with which a bootstrap can cover 95 %
EXACT_SEEDS = 16  # sign flips are enumerated up to this many seeds
FLIPS = 100_000

Values = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Scores over seeds in a few numbers."""

    count: int
    mean: float
    iqm: float  # interquartile mean
    deviation: float  # standard deviation over seeds
    low: float  # 95 % interval of the mean
    high: float


@dataclass(frozen=True)
class Difference:
    """One objective minus another, paired by seed."""

    name: str
    reference: str
    count: int  # seeds that both have
    mean: float
    low: float
    high: float
    p: float  # of the sign-flip test, two-sided
    adjusted: float  # by Holm, over all comparisons made together
    improvement: float  # probability that a run of the first beats a run of the second
    needed: int | None  # seeds that could decide; None: more than MOST_SEEDS

    @property
    def decided(self) -> bool:
        return self.adjusted < LEVEL

    @property
    def better(self) -> bool:
        return self.decided and self.mean > 0


def summarise(values: Values) -> Summary:
    """Mean, interquartile mean, spread and interval of the scores of one objective."""
    x = np.asarray(values, dtype=np.float64)
    low, high = bootstrap_interval(x)
    deviation = float(x.std(ddof=1)) if len(x) > 1 else math.nan
    return Summary(len(x), float(x.mean()), interquartile_mean(x), deviation, low, high)


def interquartile_mean(values: Values) -> float:
    """Mean of the middle half: a quarter of the values, rounded down, is left out at each end.

    >>> interquartile_mean([0, 1, 2, 3, 100])
    2.0
    """
    x = np.sort(np.asarray(values, dtype=np.float64))
    cut = len(x) // 4
    return float(x[cut : len(x) - cut].mean())


# --- intervals


def bootstrap_interval(values: Values) -> tuple[float, float]:
    """95 % interval of the mean by the expanded percentile bootstrap.

    The plain percentile interval is too short for few values (five seeds: about 84 % instead of 95 %). The expanded one
    takes quantiles further out, by as much as would make it Student's interval for normal values: at
    Φ(-√(n/(n-1)) t_{0.975, n-1}) instead of 0.025. No resample leaves the range of the values, which covers the median
    with probability 1 - 2^(1-n) only: fewer than six values get Student's interval for their mean instead.
    Resamples are drawn with a fixed seed.

    Source: Hesterberg 2015, section 5.3.
    """
    x = np.asarray(values, dtype=np.float64)
    n = len(x)
    if n < 2:
        return math.nan, math.nan
    if n < FEWEST:
        half = student_quantile(1 - LEVEL / 2, n - 1) * x.std(ddof=1) / math.sqrt(n)
        return float(x.mean() - half), float(x.mean() + half)
    tail = _expanded_tail(n)
    estimates = x[_resamples(n)].mean(axis=1)
    low, high = np.quantile(estimates, [tail, 1 - tail])
    return float(low), float(high)


@lru_cache(maxsize=8)
def _resamples(n: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(0, n, size=(RESAMPLES, n))


def _expanded_tail(n: int) -> float:
    quantile = student_quantile(1 - LEVEL / 2, n - 1)
    return normal_cdf(-math.sqrt(n / (n - 1)) * quantile)


# --- tests


def sign_flip_test(differences: Values) -> float:
    """Two-sided p: the share of all sign patterns whose mean difference is at least as far from 0 as the one seen.

    If two objectives do not differ, each paired difference is as likely to have the other sign. All 2^n patterns are
    enumerated up to 16 seeds; beyond that 100,000 are drawn, and the one seen counts as one of them.

    >>> sign_flip_test([1.0, 2.0, 3.0, 4.0, 5.0])
    0.0625
    """
    d = np.asarray(differences, dtype=np.float64)
    n = len(d)
    if n == 0:
        return 1.0
    seen = abs(d.sum()) * (1 - 1e-12)  # the order of additions must not decide a tie
    if n <= EXACT_SEEDS:
        return float((np.abs(_all_signs(n) @ d) >= seen).mean())
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(FLIPS, n))
    return float(((np.abs(signs @ d) >= seen).sum() + 1) / (FLIPS + 1))


@lru_cache(maxsize=4)
def _all_signs(n: int) -> NDArray[np.float64]:
    return np.array(1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1), dtype=np.float64)


def smallest_p(seeds: int) -> float:
    """The floor of the sign-flip test: 2^(1-n), when all differences have one sign.

    >>> smallest_p(5), smallest_p(6)
    (0.0625, 0.03125)
    """
    return 1.0 if seeds < 1 else max(2.0 ** (1 - seeds), 1 / (FLIPS + 1) if seeds > EXACT_SEEDS else 0.0)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for being several (Holm 1979): the smallest times m, the next times m-1, never decreasing.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def fewest_seeds(comparisons: int) -> int:
    """Seeds below which no difference can be shown, however large: the floor times the comparisons must be below 5 %.

    >>> fewest_seeds(1), fewest_seeds(5)
    (6, 8)
    """
    return next(n for n in range(1, 64) if 2.0 ** (1 - n) * max(1, comparisons) < LEVEL)


def seeds_to_decide(differences: Values, comparisons: int) -> int | None:
    """Seeds with which a difference of this size and spread would be found four times in five; None: over 200.

    Normal approximation of the paired test's power at Holm's first level, never below the floor of the test.
    """
    d = np.asarray(differences, dtype=np.float64)
    floor = fewest_seeds(comparisons)
    if len(d) < 2 or d.mean() == 0:
        return None
    effect = abs(d.mean()) / d.std(ddof=1) if d.std(ddof=1) > 0 else math.inf
    bound = normal_quantile(1 - LEVEL / max(1, comparisons) / 2)
    needed = (bound + normal_quantile(POWER)) ** 2 / effect**2 + bound**2 / 2  # the second term: Student, not normal
    if not needed <= MOST_SEEDS:
        return None
    return max(floor, math.ceil(needed))


def probability_of_improvement(x: Values, y: Values) -> float:
    """Share of all pairs of runs in which x is above y; ties count half.

    >>> probability_of_improvement([2, 3], [1, 3])
    0.625
    """
    a, b = np.asarray(x, dtype=np.float64)[:, None], np.asarray(y, dtype=np.float64)[None]
    return float(((a > b) + 0.5 * (a == b)).mean())


# --- comparing

Scores = dict[str, dict[int, float]]  # objective → seed → score


def compare_with(scores: Scores, reference: str) -> list[Difference]:
    """Every other objective against the reference, corrected together."""
    return differences(scores, [(name, reference) for name in scores if name != reference])


def compare_all(scores: Scores) -> list[Difference]:
    """Every pair, the one with the higher mean first, corrected together."""
    ranked = ranking(scores)
    return differences(scores, list(itertools.combinations(ranked, 2)))


def ranking(scores: Scores) -> list[str]:
    """Objectives by their mean, best first; those without a score last."""
    means = {name: float(np.mean(list(by.values()))) if by else -math.inf for name, by in scores.items()}
    return sorted(scores, key=lambda name: (-means[name], name))


def groups(scores: Scores, pairs: Sequence[Difference]) -> list[list[str]]:
    """Maximal runs of the ranking in which no pair can be told apart; one objective may be in several.

    pairs: of ``compare_all``.
    """
    told = {frozenset((pair.name, pair.reference)) for pair in pairs if pair.decided}
    ranked = ranking(scores)
    tied: list[list[str]] = []
    for start in range(len(ranked)):
        end = start + 1
        while end < len(ranked) and all(frozenset((ranked[k], ranked[end])) not in told for k in range(start, end)):
            end += 1
        if not tied or ranked[end - 1] not in tied[-1]:
            tied.append(ranked[start:end])
    return tied


def differences(scores: Scores, pairs: list[tuple[str, str]]) -> list[Difference]:
    """The first of each pair minus the second, on the seeds that both have; p-values corrected together."""
    paired = []
    for name, reference in pairs:
        common = sorted(scores[name].keys() & scores[reference].keys())
        paired.append(np.array([scores[name][seed] - scores[reference][seed] for seed in common]))
    p_values = [sign_flip_test(d) for d in paired]
    return [
        Difference(
            name,
            reference,
            len(d),
            float(d.mean()) if len(d) else math.nan,
            *bootstrap_interval(d),
            p,
            adjusted,
            _improvement(scores, name, reference),
            seeds_to_decide(d, len(pairs)),
        )
        for (name, reference), d, p, adjusted in zip(pairs, paired, p_values, holm(p_values), strict=True)
    ]


def _improvement(scores: Scores, name: str, reference: str) -> float:
    x, y = (list(scores[each].values()) for each in (name, reference))
    return probability_of_improvement(x, y) if x and y else math.nan


# --- tuning


def expected_best(values: Values) -> list[float]:
    """Expected best score after k = 1 … n trials, over all orders in which these n could have come.

    A curve that still rises at its end means that more trials would have found better settings, or that one lucky
    trial made the result. Exact, without replacement: E[max of k] = Σ_i v_(i) C(i-1, k-1) / C(n, k).

    >>> expected_best([1.0, 3.0])
    [2.0, 3.0]
    """
    v = np.sort(np.asarray(values, dtype=np.float64))
    n = len(v)
    return [
        float(sum(v[i - 1] * math.comb(i - 1, k - 1) for i in range(k, n + 1)) / math.comb(n, k))
        for k in range(1, n + 1)
    ]


# --- quantiles without scipy


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def normal_quantile(p: float) -> float:
    return _invert(normal_cdf, p)


def student_cdf(x: float, degrees: int) -> float:
    """Student's t for whole degrees of freedom: a finite sum (Abramowitz & Stegun 26.7.3, 26.7.4)."""
    theta = math.atan(x / math.sqrt(degrees))
    cosine, sine = math.cos(theta), math.sin(theta)
    term, total = (cosine, cosine) if degrees % 2 else (1.0, 1.0)
    for k in range(3 if degrees % 2 else 2, degrees - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    odd = 2 / math.pi * (theta + (sine * total if degrees > 1 else 0.0))
    return 0.5 + (odd if degrees % 2 else sine * total) / 2


@lru_cache
def student_quantile(p: float, degrees: int) -> float:
    return _invert(lambda x: student_cdf(x, degrees), p)


def _invert(cdf: Callable[[float], float], p: float) -> float:
    low, high = -1.0, 1.0
    while cdf(low) > p:
        low *= 2
    while cdf(high) < p:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(middle) < p else (low, middle)
    return (low + high) / 2
