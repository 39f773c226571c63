"""Features of an encoder that is really frozen."""

import pytest
import torch
from torch import nn

from hypersphere.evaluation.features import embed
from tests.evaluation.drawn import small_encoder


def statistics_of(encoder):
    return {name: buffer.clone() for name, buffer in encoder.named_buffers()}


def test_features_neither_change_the_batch_norm_nor_depend_on_the_batch():
    encoder = small_encoder().train()
    x = torch.randn(50, 1, 8, 8)
    for _ in range(5):
        encoder(x)
    encoder.layers[1].eval()  # a mode of its own, which must survive
    before = statistics_of(encoder)
    one, all_ = embed(encoder, x, batch=1), embed(encoder, x, batch=50)
    shuffled = torch.randperm(50)
    assert torch.allclose(one, all_, atol=1e-5)
    assert torch.allclose(embed(encoder, x[shuffled], batch=7), all_[shuffled], atol=1e-5)
    assert all(torch.equal(before[name], buffer) for name, buffer in encoder.named_buffers())
    assert encoder.training and not encoder.layers[1].training and encoder.layers[4].training
    with torch.no_grad():
        assert not torch.allclose(encoder(x), all_, atol=1e-3)  # in training mode they would be others


def test_an_encoder_that_sees_its_batch_is_refused():
    layers = [nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8, track_running_stats=False)]
    with pytest.raises(ValueError, match="depend on the other images of the batch"):
        embed(nn.Sequential(*layers), torch.randn(40, 1, 8, 8))


class Restless(nn.Module):
    """Counts its calls whatever its mode."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x.flatten(1)


def test_an_encoder_that_learns_in_eval_mode_is_refused():
    with pytest.raises(ValueError, match="changed while it was evaluated, although in eval mode: calls"):
        embed(Restless(), torch.randn(4, 1, 8, 8))
