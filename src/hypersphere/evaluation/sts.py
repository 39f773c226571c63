"""Semantic textual similarity: does the cosine rank the pairs as people do?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hypersphere.data.sts import ScoredPairs

SETTINGS = ("all", "mean", "wmean")
# Digits of a cosine. Later digits are rounding error, which must not order pairs that are equally similar. Rows so
# close that 1 - cos is below about 1e-9 lose some of their order.
DIGITS = 10
Encode = Callable[[list[str]], Any]


def pearson(x: Any, y: Any) -> float:
    """Correlation of ``x`` and ``y``, in float64; nan if one of them does not vary.

    r = Σ (x − x̄)(y − ȳ) / (|x − x̄| |y − ȳ|)

    >>> pearson([1, 2, 3], [2, 4, 6])
    1.0
    """
    x, y = _vector(x), _vector(y)
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(f"A correlation needs two or more pairs of numbers, given {len(x)} and {len(y)}.")
    if not (np.ptp(x) > 0 and np.ptp(y) > 0):  # a constant minus its mean is rounding error, not variation
        return float("nan")
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x / np.linalg.norm(x)) @ (y / np.linalg.norm(y)), -1, 1))


def spearman(x: Any, y: Any) -> float:
    """Spearman's correlation: Pearson's correlation of the ranks; ties share their mean rank.

    >>> spearman([0.1, 0.2, 0.9], [1, 4, 5])
    1.0
    """
    return pearson(ranks(x), ranks(y))


def ranks(values: Any) -> np.ndarray:
    """Ranks from 1; equal values share their mean rank.

    >>> ranks([3.0, 1.0, 3.0]).tolist()
    [2.5, 1.0, 2.5]
    """
    _, inverse, counts = np.unique(_vector(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)  # rank of the last of each group
    mean: np.ndarray = (last - (counts - 1) / 2)[inverse]
    return mean


def cosine(first: Any, second: Any) -> np.ndarray:
    """Cosine of each row of ``first`` with the same row of ``second``; 0 beside a zero vector, as in SentEval.

    Cosines are rounded to ten digits: pairs of equal rows all have exactly 1 and so share their rank.

    >>> cosine([[0.1, 0.2], [0.3, 0.7]], [[0.1, 0.2], [0.3, 0.7]]).tolist()
    [1.0, 1.0]
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products = np.einsum("nd,nd->n", a, b)
    cosines: np.ndarray = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0).round(DIGITS)
    return cosines


def score_pairs(encode: Encode, pairs: ScoredPairs) -> float:
    """Spearman's correlation of cosine and gold over ``pairs``; each distinct sentence is encoded once.

    ``encode`` takes a list of sentences and returns an array (or tensor) with a row for each.
    """
    texts = list(dict.fromkeys([*pairs.first, *pairs.second]))
    row = {text: number for number, text in enumerate(texts)}
    embeddings = _array(encode(texts))
    first, second = ([row[text] for text in side] for side in (pairs.first, pairs.second))
    return spearman(cosine(embeddings[first], embeddings[second]), pairs.scores)


def summarise(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, dict[str, float]]:
    """Spearman and Pearson of a task of several parts (similarities, gold), in the three settings in use.

    ``all``: one correlation over the parts put together; ``mean``: the mean of the parts' correlations; ``wmean``: that
    mean weighted by the parts' sizes. They differ by several points and must not be compared with one another.
    """
    joined = tuple(np.concatenate([part[side] for part in parts]) for side in (0, 1))
    sizes = [len(part[0]) for part in parts]
    correlations = {}
    for name, correlation in (("spearman", spearman), ("pearson", pearson)):
        each = [correlation(*part) for part in parts]
        correlations[name] = {
            "all": correlation(*joined),
            "mean": float(np.mean(each)),
            "wmean": float(np.average(each, weights=sizes)),
        }
    return correlations


def _vector(values: Any) -> np.ndarray:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"A correlation is of two vectors, given an array of shape {vector.shape}.")
    return vector


def _array(embeddings: Any) -> np.ndarray:
    if hasattr(embeddings, "detach"):
        embeddings = embeddings.detach().float().cpu().numpy()
    return np.asarray(embeddings)
