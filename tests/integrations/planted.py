"""Held-out views that collapse in the course of a training, for the callbacks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Collapsing:
    """As ``embed``: spread out the first time, then all rows nearly one. It disturbs the model as much as it may."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, model: nn.Module) -> tuple[Tensor, Tensor]:
        self.calls += 1
        model.eval()
        torch.rand(self.calls)
        return views(self.calls)


def views(call: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(call)
    one, two = torch.randn(2, 64, 16, generator=generator)
    return (one, one + 0.1 * two) if call == 1 else (1 + 1e-3 * one, 1 + 1e-3 * two)


def check(numbers: list[dict[str, Any]], sentences: list[str], prefix: str) -> None:
    """Numbers of every measurement against their definitions; the collapse is reported once, with a remedy."""
    assert len(numbers) >= 3
    for call, logged in enumerate(numbers, start=1):
        h1, h2 = (nn.functional.normalize(z.double(), dim=1) for z in views(call))
        alignment = (h1 - h2).square().sum(dim=1).mean()
        uniformity = torch.stack([torch.pdist(h).square().mul(-2).exp().mean().log() for h in (h1, h2)]).mean()
        singular = torch.linalg.svdvals(h1)
        share = singular / singular.sum()
        expected = {
            "alignment": alignment,
            "uniformity": uniformity,
            "effective_rank": (-(share * share.log()).sum()).exp(),
        }
        for name, value in expected.items():
            torch.testing.assert_close(logged[prefix + name], float(value), rtol=1e-3, atol=1e-4)
        assert prefix + "gap" in logged
    (collapse,) = [each for each in sentences if each.startswith("over-fusion")]
    assert "Try: " in collapse
