"""The gradient cache gives the plain gradients, dropout included, in a chunk's memory."""

from __future__ import annotations

import itertools
from collections import UserDict
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import hypersphere as hs
from hypersphere.testing import workers
from tests import cases


class Encoder(nn.Module):
    """Takes a mapping, as tokenised text does."""

    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 32), nn.GELU(), nn.Dropout(dropout), nn.Linear(32, 4))

    def forward(self, features: dict[str, Tensor]) -> Tensor:
        return self.layers(features["x"] * features["scale"][:, None])


def features(size: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {"x": torch.randn(size, 5, generator=generator), "scale": torch.rand(size, generator=generator) + 0.5}


def gradients(encoder: nn.Module, embed: nn.Module, objective: nn.Module, size: int) -> tuple[float, list[Tensor]]:
    torch.manual_seed(7)
    encoder.zero_grad()
    labels = torch.arange(size) % 2
    z1, z2 = embed(features(size)), embed(features(size))  # two dropout masks, as in SimCSE
    loss = objective(z1, z2, labels)
    loss.backward()
    torch.rand(1)  # the replay must leave the random state alone
    return loss.item(), [p.grad.clone() for p in encoder.parameters()]


class InChunks(nn.Module):
    """The plain encoder called chunk by chunk, activations kept: what the cache must reproduce."""

    def __init__(self, encoder: nn.Module, chunk: int) -> None:
        super().__init__()
        self.encoder, self.chunk = encoder, chunk

    def forward(self, given: dict[str, Tensor]) -> Tensor:
        size = len(given["x"])
        parts = [{k: v[i : i + self.chunk] for k, v in given.items()} for i in range(0, size, self.chunk)]
        return torch.cat([self.encoder(part) for part in parts])


CHUNKED = [(chunk, *case) for chunk, case in itertools.chain(
    ((3, case) for case in cases.ALL), ((chunk, cases.ALL[0]) for chunk in (1, 10, 64))
)]  # fmt: skip


@pytest.mark.parametrize(("chunk", "name", "params"), CHUNKED)
def test_cached_gradient_is_the_plain_one_with_the_same_dropout(chunk: int, name: str, params: dict) -> None:
    encoder = Encoder()
    objective = hs.create_objective(name, **params).eval()
    expected = gradients(encoder, InChunks(encoder, chunk), objective, size=10)
    state = torch.get_rng_state()
    cached = gradients(encoder, hs.GradientCache(encoder, chunk), objective, size=10)
    assert torch.equal(torch.get_rng_state(), state)
    assert cached[0] == expected[0]
    for a, b in zip(cached[1], expected[1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_dropout_really_differs_between_the_views_and_is_replayed() -> None:
    encoder = Encoder(dropout=0.5)
    cached = hs.GradientCache(encoder, 4)
    torch.manual_seed(0)
    z1, z2 = cached(features(8)), cached(features(8))
    assert not torch.allclose(z1, z2)
    masks = []
    encoder.layers[2].register_forward_hook(lambda module, given, out: masks.append(out == 0))
    torch.manual_seed(0)
    z1, z2 = cached(features(8)), cached(features(8))
    hs.create_objective("infonce")(z1, z2).backward()
    first, replayed = masks[:4], masks[4:]
    assert len(replayed) == 4
    assert all(any(torch.equal(mask, other) for other in replayed) for mask in first)


def test_only_one_chunk_of_activations_is_kept() -> None:
    """Counts what autograd holds while the loss is computed."""
    wide = nn.Sequential(nn.Linear(4, 512), nn.Tanh(), nn.Linear(512, 4))
    x = torch.randn(256, 4)

    def kept(embed: nn.Module) -> int:
        held: dict[int, int] = {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: held.__setitem__(t.data_ptr(), t.numel()) or t, lambda t: t
        ):
            embed(x)
        return sum(held.values())

    assert kept(wide) > 256 * 512
    assert kept(hs.GradientCache(wide, 8)) < 256 * 512 // 8


def test_batch_norm_is_refused_unless_it_is_in_eval_mode() -> None:
    encoder = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    with pytest.raises(ValueError, match="normalises over the batch"):
        hs.GradientCache(encoder, 2)(torch.randn(6, 4))
    assert hs.GradientCache(encoder, 2).eval()(torch.randn(6, 4)).shape == (6, 4)


def test_tensors_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="share their first dimension"):
        hs.GradientCache(Encoder(), 2)({"x": torch.randn(4, 5), "scale": torch.ones(3)})
    with pytest.raises(ValueError, match="chunk_size"):
        hs.GradientCache(Encoder(), 0)


def test_with_ddp_and_gather_it_equals_one_plain_process() -> None:
    torch.manual_seed(0)
    encoder = Encoder(dropout=0.0)
    expected = gradients(encoder, encoder, hs.create_objective("infonce"), size=10)
    for value, grads in workers(2).run(_cached_share, encoder):
        assert value == pytest.approx(expected[0], rel=1e-5)
        for a, b in zip(grads, expected[1], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def _cached_share(encoder: Encoder) -> tuple[float, list[Tensor]]:
    own = slice(0, 4) if torch.distributed.get_rank() == 0 else slice(4, 10)
    embed = DistributedDataParallel(hs.GradientCache(encoder, 3))
    mine = {name: value[own] for name, value in features(10).items()}
    loss = hs.create_objective("infonce", gather=True)(embed(mine), embed(mine))
    loss.backward()
    return loss.item(), [p.grad.clone() for p in encoder.parameters()]


class Two(NamedTuple):
    ids: Tensor
    mask: Tensor


class Encoding(UserDict):
    """As tokenizers return it: what it holds are attributes too."""

    def __getattr__(self, name: str) -> Tensor:
        return self.data[name]


def test_inputs_keep_their_kind() -> None:
    class Encoder(nn.Module):
        def forward(self, given: Any) -> Tensor:
            return given.ids * given.mask

    ids, mask = torch.randn(7, 3), torch.rand(7, 1)
    for given in (Two(ids, mask), Encoding(ids=ids, mask=mask)):
        assert torch.equal(hs.GradientCache(Encoder(), 3)(given), ids * mask)
        assert torch.equal(given.ids, ids)
    cached = hs.GradientCache(nn.Linear(3, 2), 4)
    assert cached(ids[:0]).shape == (0, 2)
    assert torch.equal(cached(input=ids), cached.encoder(ids))
