"""Random numbers: measuring leaves them alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from hypersphere.training.seeding import drawn_order, preserve_state, processes, rank, seed_process, seed_run


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


def test_processes_draw_the_same_weights_and_views_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    with preserve_state([]):
        for number in ("0", "1"):
            monkeypatch.setenv("RANK", number)
            seed_run(7)
            weights = torch.rand(2).tolist()
            seed_process(2**32 - 1)  # numpy takes no more
            drawn.append((weights, torch.rand(2).tolist(), np.random.rand(), random.random()))
    assert drawn[0][0] == drawn[1][0]
    assert all(one != other for one, other in zip(drawn[0][1:], drawn[1][1:], strict=True))


def test_rank_and_number_of_processes_are_the_launchers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert (rank(), processes()) == (0, 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert (rank(), processes()) == (2, 3)


def test_an_order_is_drawn_by_its_seed_alone() -> None:
    order = drawn_order(50, seed=3)
    torch.rand(5)
    assert drawn_order(50, seed=3) == order != drawn_order(50, seed=4) and sorted(order) == list(range(50))
