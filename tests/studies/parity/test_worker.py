"""The set-ups of a peer in its own interpreter."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from hypersphere.studies.parity import worker
from hypersphere.studies.parity.measure import EQUAL
from hypersphere.studies.parity.setups import PEERS, Peer, Setup


def test_installed_peers_have_our_value_and_gradient() -> None:
    for peer in ("pytorch-metric-learning", "info-nce-pytorch"):
        if find_spec(PEERS[peer].module) is None:
            pytest.skip(f"{peer} is not installed")
        answer = worker.results(peer, [1])
        assert {row["theirs"]["verdict"] for row in answer["rows"]} == {EQUAL}
        for row in answer["rows"]:
            assert row["theirs"]["value"] == pytest.approx(row["theirs"]["right_value"], rel=1e-9)


def test_a_set_up_that_fails_leaves_the_others_and_one_failure_for_all_is_the_peers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure(setup: Setup, count: int) -> dict[str, str]:
        if setup.case == "vicreg" or setup.options == "broken":
            raise RuntimeError("first line\nno such collective")
        return {"theirs": f"{setup.case} on {count}"}

    def no_loss() -> Any:
        raise AssertionError("measure is replaced")

    setups = (Setup("infonce", no_loss, gathers=True), Setup("vicreg", no_loss))
    monkeypatch.setattr(worker, "measure", measure)
    monkeypatch.setitem(PEERS, "pytest", Peer("pytest", setups))
    rows = worker.results("pytest", [1, 2])["rows"]
    assert [(row["case"], row["processes"], row.get("theirs", row.get("failed"))) for row in rows] == [
        ("infonce", 1, "infonce on 1"), ("infonce", 2, "infonce on 2"), ("vicreg", 1, "no such collective")
    ]  # fmt: skip
    monkeypatch.setitem(PEERS, "pytest", Peer("pytest", (Setup("infonce", no_loss, "broken"), setups[1])))
    assert worker.results("pytest", [1]) == {"failed": "no such collective"}
