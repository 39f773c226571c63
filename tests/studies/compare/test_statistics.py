"""The statistics of a comparison, against scipy, brute force and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from hypersphere.studies.compare import statistics as ours


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 12, 29])
def test_student_and_normal_quantiles_are_scipys(degrees):
    for p in (0.001, 0.3, 0.5, 0.975):
        assert ours.student_quantile(p, degrees) == pytest.approx(stats.t.ppf(p, degrees), rel=1e-9, abs=1e-12)
        assert ours.normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("count", [4, 5, 7, 8, 13])
def test_interquartile_mean_is_scipys_trimmed_mean(count):
    x = np.random.default_rng(count).normal(size=count)
    assert ours.interquartile_mean(x) == pytest.approx(stats.trim_mean(x, 0.25), rel=1e-12)


def test_bootstrap_interval_is_scipys_at_the_expanded_level():
    x = np.random.default_rng(0).normal(size=12)
    tail = stats.norm.cdf(-math.sqrt(12 / 11) * stats.t.ppf(0.975, 11))
    theirs = stats.bootstrap(
        (x,), np.mean, confidence_level=1 - 2 * tail, n_resamples=40_000, method="percentile", rng=1
    ).confidence_interval
    assert ours.bootstrap_interval(x) == pytest.approx((theirs.low, theirs.high), abs=0.03)


@pytest.mark.parametrize("count", [3, 5, 6, 12])
def test_intervals_cover_what_they_say(count):
    rng = np.random.default_rng(count)
    draws = rng.normal(size=(500, count))
    covered = np.mean([low <= 0 <= high for low, high in map(ours.bootstrap_interval, draws)])
    plain = np.mean([low <= 0 <= high for low, high in (_plain(x) for x in draws[:100])])
    assert 0.92 <= covered <= 0.97
    if count == 6:
        assert plain < 0.9  # what the expansion is for


def _plain(x):
    return np.quantile(x[np.random.default_rng(0).integers(0, len(x), (2000, len(x)))].mean(axis=1), [0.025, 0.975])


@pytest.mark.parametrize("count", [3, 6, 9])
def test_sign_flips_are_scipys_permutation_test(count):
    d = np.random.default_rng(count).normal(0.4, 1, size=count)
    theirs = stats.permutation_test(
        (d,), lambda x, axis: np.mean(x, axis=axis), permutation_type="samples", vectorized=True, n_resamples=np.inf
    )
    assert ours.sign_flip_test(d) == pytest.approx(theirs.pvalue, rel=1e-12)


def test_many_seeds_are_sampled_close_to_the_exact_p():
    d = np.random.default_rng(3).normal(0.3, 1, size=18)
    signs = 1 - 2 * ((np.arange(2**18)[:, None] >> np.arange(18)) & 1)
    exact = (np.abs(signs @ d) >= abs(d.sum()) * (1 - 1e-12)).mean()
    assert ours.sign_flip_test(d) == pytest.approx(exact, abs=0.005)


def test_five_seeds_never_show_a_difference_and_six_can():
    assert ours.sign_flip_test([9.0, 8, 9, 7, 9]) == ours.smallest_p(5) == 0.0625
    assert ours.sign_flip_test([9.0, 8, 9, 7, 9, 9]) == 0.03125 < ours.LEVEL
    assert ours.fewest_seeds(1) == 6


def test_holm_by_its_definition():
    p = [0.04, 0.001, 0.02, 0.3]
    expected = {0.001: 0.004, 0.02: 0.06, 0.04: 0.08, 0.3: 0.3}
    assert ours.holm(p) == pytest.approx([expected[each] for each in p])


def test_probability_of_improvement_is_mann_whitneys_u():
    rng = np.random.default_rng(4)
    x, y = rng.integers(0, 6, 7).astype(float), rng.integers(0, 6, 9).astype(float)
    theirs = stats.mannwhitneyu(x, y).statistic / (len(x) * len(y))
    assert ours.probability_of_improvement(x, y) == pytest.approx(theirs, rel=1e-12)


def test_expected_best_is_the_mean_over_all_subsets():
    values = np.random.default_rng(5).normal(size=7)
    brute = [np.mean([max(each) for each in itertools.combinations(values, k)]) for k in range(1, 8)]
    assert ours.expected_best(values) == pytest.approx(brute, rel=1e-12)


def _study(rng, objectives, seeds, lead=0.0):
    """Scores that share a part of each seed, as runs on the same split do; the first is ahead by ``lead``."""
    common = rng.normal(size=seeds)
    return {
        f"o{k}": {seed: common[seed] + rng.normal() + (lead if k == 1 else 0.0) for seed in range(seeds)}
        for k in range(objectives)
    }


def _paired(scores):
    return [[scores[name][seed] - scores["o0"][seed] for seed in scores["o0"]] for name in scores if name != "o0"]


def test_without_a_true_difference_false_claims_stay_within_five_percent():
    rng = np.random.default_rng(6)
    claims = [any(each.decided for each in ours.compare_with(_study(rng, 5, 8), "o0")) for _ in range(400)]
    assert np.mean(claims) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize("lead", [1.2, 2.5])
def test_a_planted_difference_is_found_as_often_as_the_power_says(lead):
    rng, seeds = np.random.default_rng(7), 10
    share = np.mean([ours.sign_flip_test(_paired(_study(rng, 2, seeds, lead))[0]) < 0.05 for _ in range(300)])
    shift = lead / math.sqrt(2) * math.sqrt(seeds)  # of the paired t statistic
    power = 1 - stats.nct.cdf(stats.t.ppf(0.975, seeds - 1), seeds - 1, shift)
    assert share == pytest.approx(power, abs=0.08)


def test_the_seeds_that_could_decide_do_decide_four_times_in_five():
    rng = np.random.default_rng(8)
    exemplar = np.array([-0.4, 0.1, 0.8, 1.4, 1.6])
    needed = ours.seeds_to_decide(exemplar, 1)
    draws = rng.normal(exemplar.mean(), exemplar.std(ddof=1), size=(300, needed))
    assert np.mean([ours.sign_flip_test(d) < 0.05 for d in draws]) == pytest.approx(0.8, abs=0.1)
    assert ours.seeds_to_decide([0.01, -0.01, 0.011, -0.01], 1) is None
    assert ours.seeds_to_decide([5.0, 5.1, 4.9], 5) == ours.fewest_seeds(5)


def test_groups_are_the_runs_of_the_ranking_that_no_pair_splits():
    scores = {name: {seed: base + 0.01 * seed for seed in range(9)} for name, base in
              {"a": 3.0, "b": 2.9, "c": 1.0}.items()}  # fmt: skip
    pairs = [ours.Difference(x, y, 9, 0, 0, 0, 0, p, 0.5, None)
             for x, y, p in [("a", "b", 0.5), ("a", "c", 0.01), ("b", "c", 0.2)]]  # fmt: skip
    assert ours.groups(scores, pairs) == [["a", "b"], ["b", "c"]]


def test_only_seeds_that_both_have_are_paired():
    scores = {"a": {0: 1.0, 1: 2.0, 2: 9.0}, "b": {0: 0.5, 1: 1.5, 7: -50.0}}
    (difference,) = ours.compare_with(scores, "b")
    assert (difference.count, difference.mean) == (2, 0.5)
