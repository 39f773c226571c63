"""CLOA's world: three lines, and the negative of each point as its positive."""

import pytest
import torch

from hypersphere.data.synthetic import negated, three_lines


def test_without_noise_each_class_is_one_line_through_the_origin():
    x, positives, labels = three_lines(points=50, noise=0.0, seed=3)
    for label in range(3):
        singular = torch.linalg.svdvals(x[labels == label])
        assert singular[1] < 1e-5 * singular[0]
    assert torch.linalg.svdvals(x)[2] > 0.1  # three lines, not three times the same
    assert x.norm(dim=1).max() <= 1 + 1e-6
    assert torch.equal(positives, -x)


def test_noise_has_the_size_asked_for():
    x, positives, _ = three_lines(points=4000, noise=0.05, seed=0)
    assert (positives + x).std().item() == pytest.approx(0.05, rel=0.02)
    quiet, _, labels = three_lines(points=4000, noise=0.0, seed=0)
    assert (x - quiet).std().item() == pytest.approx(0.05, rel=0.02)
    assert labels.bincount().tolist() == [4000] * 3


def test_the_seed_alone_decides():
    torch.manual_seed(1)
    first = three_lines(10, 0.1, seed=5)
    torch.manual_seed(2)
    again, other = three_lines(10, 0.1, seed=5), three_lines(10, 0.1, seed=6)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


def test_fresh_positives_follow_torchs_generator():
    x = torch.randn(5, 3)
    torch.manual_seed(0)
    first, second = negated(x, 0.1), negated(x, 0.1)
    torch.manual_seed(0)
    assert torch.equal(first, negated(x, 0.1)) and not torch.equal(first, second)


@pytest.mark.parametrize("bad", [{"points": 0}, {"noise": -0.1}, {"noise": float("nan")}])
def test_bad_worlds_are_refused(bad):
    with pytest.raises(ValueError, match="must be a"):
        three_lines(**bad)
