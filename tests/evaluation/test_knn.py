"""Votes of the nearest neighbours, against loops and scikit-learn."""

import numpy as np
import pytest
import torch

from hypersphere.evaluation.knn import few_labels_probe, nearest
from hypersphere.evaluation.probes import knn_probe
from tests.evaluation.drawn import clouds


def loop_knn(train_z, train_y, test_z, test_y, k, temperature, classes):
    """Weighted votes, row by row, in float64."""
    hits = 0
    train_z, test_z = ([row / np.linalg.norm(row) for row in z.double().numpy()] for z in (train_z, test_z))
    for row, label in zip(test_z, test_y.tolist(), strict=True):
        near = sorted(((float(row @ other), int(y)) for other, y in zip(train_z, train_y, strict=True)), reverse=True)
        votes = [0.0] * classes
        for cosine, y in near[:k]:
            votes[y] += np.exp(cosine / temperature)
        hits += int(np.argmax(votes)) == label
    return hits / len(test_y)


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.07), (15, 0.07), (40, 1.0), (500, 0.5)])
def test_knn_votes_as_a_loop_does(k, temperature):
    train_z, train_y = clouds(3, 50)
    test_z, test_y = clouds(3, 30, seed=0)
    test_z = test_z + 0.5 * torch.randn(test_z.shape, generator=torch.Generator().manual_seed(1))
    ours = knn_probe(train_z, train_y, test_z, test_y, k=k, temperature=temperature).top1
    assert ours == pytest.approx(loop_knn(train_z, train_y, test_z, test_y, k, temperature, 3), abs=1e-12)
    assert 0.4 < ours < 1


def test_knn_without_weights_is_scikit_learns(digits):
    """At a high temperature every neighbour counts the same."""
    from sklearn.neighbors import KNeighborsClassifier

    train_z, train_y, test_z, test_y = digits
    theirs = KNeighborsClassifier(n_neighbors=7, metric="cosine", algorithm="brute").fit(train_z, train_y)
    ours = knn_probe(*digits, k=7, temperature=1e6)
    assert ours.top1 == pytest.approx(theirs.score(test_z, test_y), abs=1.5 / len(test_y))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 13), (1000, 1000)])
def test_blocks_of_any_size_find_the_same_neighbours(rows, columns):
    queries, keys = clouds(3, 10)[0], clouds(3, 40, seed=1)[0]
    cosines, numbers = nearest(queries, keys, 9, rows, columns)
    full = torch.cosine_similarity(queries.unsqueeze(1).double(), keys.unsqueeze(0).double(), dim=2)
    expected = full.argsort(dim=1, descending=True)[:, :9]
    assert torch.equal(numbers, expected)
    assert torch.allclose(cosines.double(), full.gather(1, expected), atol=1e-6)


def test_one_neighbour_has_one_answer():
    """The other classes have no vote, and are not among the first five by default."""
    train_z, train_y = clouds(8, 20)
    test_z, test_y = clouds(8, 10, seed=1)
    accuracy = knn_probe(train_z, train_y, test_z, test_y, k=1)
    assert accuracy.top5 == accuracy.top1 < 0.5


def test_a_sharp_temperature_does_not_overflow():
    train_z, train_y = clouds(3, 50, spread=0.1)
    assert knn_probe(train_z, train_y, train_z, train_y, temperature=1e-4).top1 == 1


def test_with_few_labels_each_draw_votes_alone():
    """Two rows of each class, one of which is drawn: two of the four pairs lead one of the test rows astray."""
    train_z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    labels = torch.tensor([0, 0, 1, 1])
    test_z = torch.tensor([[1.0, -0.1], [0.1, -1.0]])  # near the first row and the last one
    parts = (train_z, labels, test_z, torch.tensor([0, 1]))
    assert few_labels_probe(*parts, per_class=2, draws=3) == knn_probe(*parts, k=1).top1 == 1
    # Rows 0 and 3, or 1 and 2: both right. Rows 0 and 2: the second test row is nearer to row 0. Rows 1 and 3: the
    # first is nearer to row 3.
    assert few_labels_probe(*parts, per_class=1, draws=400) == pytest.approx((1 + 1 + 0.5 + 0.5) / 4, abs=0.03)
    assert few_labels_probe(*parts, per_class=1, draws=1, seed=3) in (0.5, 1)
    with pytest.raises(ValueError, match="per_class must be a whole number of at least 1, not 0"):
        few_labels_probe(*parts, per_class=0)
