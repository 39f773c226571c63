"""Correlations beside scipy's, and the three settings written out."""

import numpy as np
import pytest
import scipy.stats

from hypersphere.data.sts import ScoredPairs
from hypersphere.evaluation.sts import cosine, pearson, score_pairs, spearman, summarise


@pytest.mark.parametrize("ties", [False, True])
def test_correlations_are_scipys(ties: bool) -> None:
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=200), draw.normal(size=200)
    y += 0.5 * x
    if ties:
        x, y = np.round(x, 1), np.round(y)
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-12)
    assert pearson(x, y) == pytest.approx(scipy.stats.pearsonr(x, y).statistic, abs=1e-12)


def test_what_does_not_vary_has_no_correlation() -> None:
    assert np.isnan(spearman([0.1, 0.1, 0.1], [1, 2, 3]))
    with pytest.raises(ValueError, match="given 2 and 3"):
        pearson([1, 2], [1, 2, 3])


def test_pairs_of_equal_rows_are_tied() -> None:
    draw = np.random.default_rng(3)
    rows, gold = draw.normal(size=(300, 7)).astype(np.float32), draw.normal(size=300)
    cosines = cosine(rows, rows)
    assert len(set(cosines.tolist())) == 1 and np.isnan(spearman(cosines, gold)) and np.isnan(pearson(cosines, gold))
    other = np.where(np.arange(300)[:, None] < 100, rows, draw.normal(size=(300, 7)))
    assert len(set(cosine(rows, other)[:100].tolist())) == 1
    exact = [1.0] * 100 + cosine(rows, other)[100:].tolist()
    assert spearman(cosine(rows, other), gold) == pytest.approx(scipy.stats.spearmanr(exact, gold).statistic, abs=1e-12)


def test_embeddings_on_a_line_have_no_correlation() -> None:
    draw = np.random.default_rng(4)
    line = (draw.uniform(1, 9, size=(400, 1)) * draw.normal(size=(1, 16))).astype(np.float32)
    for correlation in (spearman, pearson):
        assert np.isnan(correlation(cosine(line[:200], line[200:]), draw.normal(size=200)))


def test_cosine_of_rows() -> None:
    cosines = cosine([[3, 4], [1, 0], [0, 0]], [[4, 3], [-2, 0], [1, 1]])
    assert cosines == pytest.approx([24 / 25, -1, 0])


def test_settings_pool_or_average_the_parts() -> None:
    draw = np.random.default_rng(1)
    parts = [(draw.normal(size=size), draw.normal(size=size)) for size in (20, 50, 30)]
    summary = summarise(parts)
    each = [scipy.stats.spearmanr(*part).statistic for part in parts]
    pooled = scipy.stats.spearmanr(np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts]))
    assert summary["spearman"]["all"] == pytest.approx(pooled.statistic)
    assert summary["spearman"]["mean"] == pytest.approx(sum(each) / 3)
    assert summary["spearman"]["wmean"] == pytest.approx((20 * each[0] + 50 * each[1] + 30 * each[2]) / 100)


def test_score_pairs_encodes_each_sentence_once() -> None:
    table = {"a": [1.0, 0.0], "b": [1.0, 0.1], "c": [0.0, 1.0], "d": [-1.0, 0.2]}
    given: list[str] = []

    def encode(texts: list[str]) -> np.ndarray:
        given.extend(texts)
        return np.asarray([table[text] for text in texts])

    pairs = ScoredPairs("four", ["a", "a", "a", "b"], ["b", "c", "d", "b"], np.array([4.0, 2.0, 1.0, 5.0]))
    assert score_pairs(encode, pairs) == pytest.approx(1.0)
    assert sorted(given) == ["a", "b", "c", "d"]
