"""Random numbers: measuring leaves them alone."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import nn

from hypersphere.training.seeding import preserve_state


def test_preserve_state_puts_everything_back() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5))
    model[1].eval()
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = random.random(), np.random.rand(), torch.rand(1)
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    with preserve_state([model]):
        model.train()
        drawn = model(torch.randn(8, 4)), random.random(), np.random.rand()
        assert not drawn[0].requires_grad
        assert model[0].num_batches_tracked == 1
    assert (random.random(), np.random.rand(), torch.rand(1)) == expected
    assert [module.training for module in model] == [True, False]
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
