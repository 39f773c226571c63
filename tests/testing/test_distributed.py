"""The check across processes, on losses that gather as other libraries do."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather

import hypersphere as hs


class OwnAnchors(nn.Module):
    """InfoNCE of the process's own anchors against the keys of all, gathered with gradient: the local loss of open_clip
    and sentence-transformers. Shares must be equal. ``times`` is 1 where it is right."""

    def __init__(self, times: float = 1.0) -> None:
        super().__init__()
        self.times = times

    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        x, y = (nn.functional.normalize(z) for z in (z1, z2))
        keys, first = y, 0
        if dist.is_initialized():
            keys, first = torch.cat(all_gather(y)), dist.get_rank() * len(y)
        return self.times * nn.functional.cross_entropy(x @ keys.T / 0.05, torch.arange(first, first + len(x)))


def test_a_loss_that_gathers_equal_shares_is_exact_with_a_value_of_its_own() -> None:
    hs.testing.assert_distributed_exact(OwnAnchors(), equal_shares=True, value="mean")
    hs.testing.assert_distributed_exact(OwnAnchors(), equal_shares=True, value="any")
    with pytest.raises(AssertionError) as said:
        hs.testing.assert_distributed_exact(OwnAnchors(), equal_shares=True)
    assert "reports the value" in str(said.value) and "pass value='mean'" in str(said.value)
    assert "gradient" not in str(said.value)


class HalfOnTwo(OwnAnchors):
    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        self.times = 0.5 if dist.is_initialized() else 1.0
        return super().forward(z1, z2)


def test_gradient_and_value_are_reported_apart() -> None:
    with pytest.raises(AssertionError, match=r"it is 0\.5 times the right one; the processes' mean value is"):
        hs.testing.assert_distributed_exact(HalfOnTwo(), equal_shares=True, value="mean")
    with pytest.raises(AssertionError, match=r"it is 0\.5 times the right one$"):
        hs.testing.assert_distributed_exact(HalfOnTwo(), equal_shares=True, value="any")
    with pytest.raises(ValueError, match="value must be 'same', 'mean' or 'any', not 'local'"):
        hs.testing.assert_distributed_exact(HalfOnTwo(), value="local")  # type: ignore[arg-type]


class NeedsEqualShares(nn.Module):
    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        if dist.is_initialized() and len(z1) % 4:
            raise RuntimeError("shares differ")
        return (z1 * z2).sum()


def test_a_loss_that_fails_on_uneven_shares_is_told_of_equal_ones() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)shares differ.*had \[3, 4\] rows.*equal_shares=True"):
        hs.testing.assert_distributed_exact(NeedsEqualShares())


def test_random_numbers_of_the_caller_go_on_as_they_would() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    hs.testing.assert_distributed_exact(hs.create_objective("infonce"), world_size=1)
    assert torch.equal(torch.rand(3), expected)


def test_a_group_without_a_process_is_refused() -> None:
    with pytest.raises(ValueError, match="world_size must be at least 1, not 0"):
        hs.testing.assert_distributed_exact(hs.create_objective("infonce"), world_size=0)
