"""How often the right class is first, or among the first five."""

import pytest
import torch

from hypersphere.evaluation.accuracy import Accuracy, accuracy
from hypersphere.evaluation.probes import knn_probe, linear_probe, mlp_probe
from tests.evaluation.drawn import clouds


def test_accuracy_counts_as_a_loop_does():
    scores, labels = torch.randn(200, 8, generator=torch.Generator().manual_seed(0)), torch.arange(200) % 8
    first = five = 0
    for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
        order = sorted(range(8), key=lambda place: -row[place])
        first += order[0] == label
        five += label in order[:5]
    assert accuracy(scores, labels) == Accuracy(first / 200, five / 200)


def test_equal_scores_give_the_lower_class_and_no_score_is_no_answer():
    assert accuracy(torch.zeros(4, 7), torch.tensor([0, 1, 5, 6])) == Accuracy(0.25, 0.5)
    unanswered = torch.full((2, 7), -torch.inf)
    unanswered[:, 3] = 0
    assert accuracy(unanswered, torch.tensor([3, 0])) == Accuracy(0.5, 0.5)


def test_with_five_classes_top5_says_nothing():
    assert accuracy(torch.randn(10, 5), torch.arange(10) % 5).top5 is None


@pytest.mark.parametrize("probe", [linear_probe, mlp_probe, knn_probe])
def test_every_probe_refuses_features_without_labels_or_numbers(probe):
    x, y = clouds(3, 10)
    with pytest.raises(ValueError, match="a label for each"):
        probe(x, y[:-1], x, y)
    with pytest.raises(ValueError, match="1 of 30 rows that are not finite"):
        probe(x, y, x.clone().index_fill_(0, torch.tensor([4]), float("nan")), y)
    with pytest.raises(ValueError, match=r"10 of 30 rows without a label"):
        probe(x, torch.where(y == 2, -1, y), x, y)
