"""Two real processes in every trainer give the weights of one process with the whole batch. One launch serves all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

from hypersphere.testing.workers import Workers
from tests.integrations import small

WORLD = 2


@pytest.fixture(scope="module")
def pair() -> Iterator[Workers]:
    """Processes of their own: trainers leave settings behind."""
    workers = Workers(WORLD)
    yield workers
    workers.close()


def run(name: str, *args: Any) -> small.Weights:
    rank = dist.get_rank()
    with small.launched(rank, WORLD):
        weights: small.Weights = getattr(small, name)(*args, rank, WORLD)
        return weights


@pytest.mark.parametrize("name", ["in_a_loop", "with_accelerate", "with_lightning"])
def test_two_processes_train_as_one(name: str, pair: Workers) -> None:
    reference = small.expected()
    for weights in pair.run(run, name):
        small.assert_same(weights, reference)


def with_transformers(folder: str, *given: Any) -> list[Any]:
    rank, logged = dist.get_rank(), []
    with small.launched(rank, WORLD):
        for settings in given:
            weights, trainer = small.with_transformers(folder, rank, WORLD, **settings)
            logged.append((weights, [each["loss"] for each in trainer.state.log_history if "loss" in each]))
    return logged


def test_two_processes_of_transformers_train_as_one(pair: Workers, tmp_path: Any) -> None:
    """Accumulated or not, with labels (by which the Trainer rescales losses) or without."""
    cases: list[dict[str, Any]] = [{}, {"split": 2}, {"split": 2, "labelled": True}]
    for results in pair.run(with_transformers, str(tmp_path), *cases):
        for case, (weights, losses) in zip(cases, results, strict=True):
            small.assert_same(weights, small.expected(case.get("split", 1), learnable=False))
            assert len(losses) == small.STEPS


def sharded() -> list[torch.Tensor]:
    """Gradients of an encoder whose weights FSDP2 shards over the processes."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank, encoder = dist.get_rank(), small.Encoder()
    mesh = init_device_mesh("cpu", (WORLD,))
    for layer in (encoder.layers[0], encoder.layers[2], encoder):
        fully_shard(layer, mesh=mesh)
    batch = next(iter(small.batches(rank, WORLD)))
    small.objective()(*encoder(**batch)).backward()
    grads: list[Any] = [parameter.grad for parameter in encoder.parameters()]
    assert all(grad.to_local().numel() < grad.numel() for grad in grads)  # each process holds a part
    return [grad.full_tensor() for grad in grads]


def test_a_sharded_encoder_has_the_gradient_of_one_process(pair: Workers) -> None:
    encoder = small.Encoder()
    small.objective()(*encoder(**next(iter(small.batches())))).backward()
    for grads in pair.run(sharded):
        for actual, parameter in zip(grads, encoder.parameters(), strict=True):
            torch.testing.assert_close(actual, parameter.grad, rtol=1e-5, atol=1e-7)
