"""Heads have the layers their papers give them."""

import pytest
import torch
from torch import nn

from hypersphere.encoders.heads import projection_head


def kinds(head):
    return [type(layer) for layer in head]


def test_no_head_changes_nothing():
    x = torch.randn(3, 7)
    head = projection_head("none", 7)
    assert torch.equal(head(x), x) and head.dimension == 7
    with pytest.raises(ValueError, match="keeps the 7 dimensions it is given and cannot give 5"):
        projection_head("none", 7, output=5)


def test_simcses_head_is_a_linear_layer_and_tanh():
    head = projection_head("linear-tanh", 6)
    x = torch.randn(3, 6)
    expected = torch.tanh(x @ head[0].weight.T + head[0].bias)
    assert torch.allclose(head(x), expected) and head.dimension == 6


def test_simclrs_head_has_no_bias_and_ends_in_a_norm_without_shift():
    head = projection_head("simclr", 512)
    assert kinds(head) == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear, nn.BatchNorm1d]
    assert head[0].bias is None and head[3].bias is None and head.dimension == 128
    optimiser = torch.optim.SGD(head.parameters(), lr=1.0, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        (head(torch.randn(16, 512)) - 5).square().mean().backward()
        optimiser.step()
    head.train()
    assert torch.allclose(head(torch.randn(64, 512)).mean(dim=0), torch.zeros(128), atol=1e-5)


def test_an_mlp_has_the_widths_it_is_given():
    assert kinds(projection_head("mlp", 8, hidden=[4, 2])) == [nn.Linear, nn.ReLU, nn.Linear]
    head = projection_head("mlp", 8, output=3, hidden=[4], normalised=True)
    assert kinds(head) == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear] and head.dimension == 3
    assert kinds(projection_head("mlp", 8, output=3)) == [nn.Linear]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("simclrr", {}, "did you mean 'simclr'"),
        ("mlp", {}, "needs widths"),
        ("simclr", {"hidden": [3]}, "has its own widths"),
        ("simclr", {"normalised": True}, "is as published"),
        ("mlp", {"hidden": [0]}, "at least 1"),
    ],
)
def test_what_a_head_has_not_is_refused(kind, options, message):
    with pytest.raises(ValueError, match=message):
        projection_head(kind, 8, **options)
