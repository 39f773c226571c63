"""Peers compute the same loss, and what keeps one from taking part is said."""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from hypersphere.studies.benchmark import peers
from hypersphere.studies.benchmark.cases import OURS, find_case, inputs
from hypersphere.studies.benchmark.peers import PEERS, available_peers, peer_loss, peers_of
from hypersphere.studies.benchmark.worker import loss_of

SHARED = [(peer, label) for peer, (_, shared) in PEERS.items() for label in shared]


@pytest.mark.parametrize(("peer", "label"), SHARED)
def test_a_peer_has_our_value_and_gradient(peer: str, label: str) -> None:
    if find_spec(PEERS[peer][0]) is None:
        pytest.skip(f"{peer} is not installed")
    z1, z2, labels = inputs(12, 5)
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        for loss in (loss_of(label, OURS, 5), peer_loss(peer, label)):
            value = loss(z1, z2, labels)
            results.append([value.detach(), *torch.autograd.grad(value, [z1, z2])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_every_shared_case_exists() -> None:
    assert all(find_case(label).label == label for _, label in SHARED)
    assert peers_of("ntxent") == ["pytorch-metric-learning", "lightly"]


def test_a_peer_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda module: None)
    monkeypatch.setattr(peers, "peers_environment", lambda: None)
    present, absent = available_peers(None)
    assert present == {}
    assert absent.keys() == PEERS.keys()
    assert "benchmarks/peers_env makes one" in absent["lightly"]


def test_an_environment_without_lightly_is_no_environment_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda module: None)
    present, absent = available_peers(Path(sys.executable))
    if find_spec("lightly") is None:
        assert "lightly" not in present
        assert "No module named 'lightly'" in absent["lightly"]
