"""Set-ups of peers: packages without their init, and a wrapper on two processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hypersphere.studies.benchmark.cases import find_case
from hypersphere.studies.parity.measure import DIRECTION, EQUAL, measure
from hypersphere.studies.parity.setups import PEERS, bare


def test_the_efficient_wrapper_has_another_gradient_on_two_processes() -> None:
    pytest.importorskip("pytorch_metric_learning")
    setups = {each.options: each for each in PEERS["pytorch-metric-learning"].setups if each.gathers}
    whole, efficient = (
        measure(setups[f"DistributedLossWrapper(NTXentLoss, efficient={choice})"], 2) for choice in (False, True)
    )
    assert whole["theirs"]["verdict"] == EQUAL
    assert whole["theirs"]["value"] == pytest.approx(2 * whole["theirs"]["right_value"])  # the documented W
    assert efficient["theirs"]["verdict"] == DIRECTION
    assert efficient["ours"]["verdict"] == EQUAL


def test_a_bare_package_is_imported_without_its_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "heavy_peer"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('needs torchvision')\n")
    (package / "loss.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    bare("heavy_peer")
    try:
        import heavy_peer.loss  # type: ignore[import-not-found]

        assert heavy_peer.loss.VALUE == 3
    finally:
        for name in ("heavy_peer", "heavy_peer.loss"):
            sys.modules.pop(name, None)
    with pytest.raises(ModuleNotFoundError, match="no_such_peer"):
        bare("no_such_peer")


def test_every_set_up_is_of_a_case_of_the_benchmark_and_told_from_its_neighbours() -> None:
    for peer, library in PEERS.items():
        for setup in library.setups:
            find_case(setup.case)
        several = [(setup.case, setup.options) for setup in library.setups if setup.gathers]
        assert len(set(several)) == len(several), peer
