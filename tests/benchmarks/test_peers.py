"""The peer computes the same loss, and what does not fit is said."""

from __future__ import annotations

import torch

from benchmarks.cases import inputs
from benchmarks.peers import ours, page, peer
from benchmarks.timing import machine


def test_the_peer_has_our_value_and_gradient() -> None:
    z1, z2, labels = inputs(6, 5)
    found = []
    for loss in (ours(), peer()):
        value = loss(z1, z2, labels)
        found.append([value.detach(), *torch.autograd.grad(value, [z1, z2])])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_a_peer_that_does_not_fit_is_reported_as_such() -> None:
    row = {"size": 512, "bytes": {"ours": 3e7, "peer": None}, "seconds": {"ours": 0.02}}
    common = {"machine": machine(2), "peer": "0", "dim": 768, "repeats": 1, "limit_gigabytes": 4}
    written = page({**common, "rows": [row]})
    assert "does not fit in 4 GB" in written
    assert "out of memory" in written
