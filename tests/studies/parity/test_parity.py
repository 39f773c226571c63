"""Verdicts come from the numbers: a peer with a wrong gradient is found, whatever the table of reasons holds."""

from __future__ import annotations

import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import hypersphere as hs
from hypersphere.studies.parity import page, reasons, run, worker
from hypersphere.studies.parity.measure import DIRECTION, EQUAL, FACTOR, differ, measure
from hypersphere.studies.parity.setups import PEERS, Setup, bare

ROOT = Path(__file__).parents[3]


def scaled(factor: float) -> Any:
    """InfoNCE with the gradient of a loss ``factor`` times as large, and the same value."""
    ours = hs.create_objective("infonce", temperature=0.05, gather=True)

    def loss(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        value = ours(z1, z2)
        return value.detach() + factor * (value - value.detach())

    return loss


def own_slice() -> Any:
    """The whole loss on every process, in which only the own rows carry a gradient: the common mistake."""

    def loss(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        if dist.is_initialized():
            z1, z2 = (torch.cat(_gathered(z)) for z in (z1, z2))
        objective: Any = hs.create_objective("infonce", temperature=0.05)
        value: Tensor = objective(z1, z2)
        return value

    return loss


def _gathered(z: Tensor) -> list[Tensor]:
    rows = [torch.empty_like(z) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, z.detach())
    rows[dist.get_rank()] = z
    return rows


def own_rows() -> Any:
    """Each process contrasts its own rows alone."""
    objective: Any = hs.create_objective("infonce", temperature=0.05)
    return lambda z1, z2, labels: objective(z1, z2)


def test_a_doubled_gradient_is_a_wrong_factor() -> None:
    one = measure(Setup("infonce", partial(scaled, 2.0)), 1)["theirs"]
    assert one["verdict"] == FACTOR
    assert one["ratio"] == pytest.approx(2)
    assert one["value"] == pytest.approx(one["right_value"])
    assert page.verdict(one, 1) == "other factor 2"
    assert measure(Setup("infonce", partial(scaled, 1.0)), 1)["theirs"]["verdict"] == EQUAL


@pytest.mark.parametrize(
    ("build", "verdict", "words"),
    [
        (partial(scaled, 1.0), EQUAL, "equal"),
        (own_slice, FACTOR, "wrong factor 1/W"),
        (own_rows, DIRECTION, "wrong direction, cosine 0."),
    ],
    ids=["exact", "own slice", "own rows"],
)
def test_on_two_processes_the_right_gradient_is_that_of_one(build: Any, verdict: str, words: str) -> None:
    two = measure(Setup("infonce", build, gathers=True), 2)
    assert two["theirs"]["verdict"] == verdict
    assert page.verdict(two["theirs"], 2).startswith(words)
    assert two["ours"]["verdict"] == EQUAL


def test_a_small_angle_is_not_taken_for_a_factor() -> None:
    right = torch.tensor([1.0, 0.0], dtype=torch.float64)
    tilted = torch.tensor([2.0, 1e-5], dtype=torch.float64)
    empty = torch.zeros(0)
    assert differ((1.0, tilted, empty), (1.0, right, empty)).verdict == DIRECTION
    assert differ((1.0, 2 * right, empty), (1.0, right, empty)).verdict == FACTOR


def test_installed_peers_have_our_value_and_gradient() -> None:
    for peer in ("pytorch-metric-learning", "info-nce-pytorch"):
        if find_spec(PEERS[peer].module) is None:
            pytest.skip(f"{peer} is not installed")
        answer = worker.results(peer, [1])
        assert {row["theirs"]["verdict"] for row in answer["rows"]} == {EQUAL}
        for row in answer["rows"]:
            assert row["theirs"]["value"] == pytest.approx(row["theirs"]["right_value"], rel=1e-9)


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


def results(**row: Any) -> dict[str, Any]:
    record = {"verdict": FACTOR, "ratio": 0.5, "cosine": 1.0, "largest": 0.5, "value": 1.0, "right_value": 1.0}
    full = {"case": "infonce", "options": "cl_forward", "processes": 2, "theirs": record | {"parameters": None}}
    full["ours"] = record | {"verdict": EQUAL, "ratio": 1.0, "parameters": None}
    answer = {"version": "0.4", "torch": "2.13.0", "rows": [full | row]}
    return {"hypersphere": "0", "processes": [2], "peers": {"simcse": answer}, "absent": {"lightly": "not installed"}}


def test_the_page_has_the_reason_of_a_known_difference() -> None:
    text = page.markdown(results())
    assert "1 of 1 set-ups do not have the gradient of one process; ours has it in 1 of 1." in text
    assert "simcse, cl_forward: wrong factor 1/W. Every process computes the whole loss" in text
    assert "(princeton-nlp/SimCSE#212)" in text
    assert "- lightly: not installed." in text


def test_a_reason_counts_only_for_the_verdict_it_explains() -> None:
    known = results()["peers"]["simcse"]["rows"][0]["theirs"]
    text = page.markdown(results(theirs=known | {"verdict": DIRECTION, "cosine": 0.9}))
    assert "simcse, cl_forward: wrong direction, cosine 0.9000. Differs, no reason known." in text
    assert "SimCSE#212" not in text


def test_a_set_up_that_fails_is_named() -> None:
    failed = results()
    row = failed["peers"]["simcse"]["rows"][0]
    del row["theirs"], row["ours"]
    row["failed"] = "no such collective"
    text = page.markdown(failed)
    assert "simcse, cl_forward: failed: no such collective." in text
    assert "0 of 0 set-ups do not have the gradient" in text


def test_every_reason_belongs_to_a_set_up() -> None:
    for peer, start, several in reasons.REASONS:
        matching = [each for each in PEERS[peer].setups if each.options.startswith(start)]
        assert matching, (peer, start)
        assert any(each.gathers for each in matching) or not several


def test_the_shipped_page_has_every_set_up_and_every_reason() -> None:
    text = (ROOT / "docs" / "parity.md").read_text(encoding="utf-8")
    assert page.COMMAND in text
    for peer, library in PEERS.items():
        assert peer in text
        for setup in library.setups:
            assert setup.case in text
            assert setup.options in text or not setup.gathers
    for known in reasons.REASONS.values():
        assert known.why in text
        assert known.issue in text
    assert page.UNKNOWN.capitalize() not in text
    assert "failed" not in text


def test_a_peer_that_is_not_installed_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "find_spec", lambda module: None)
    monkeypatch.setattr(run, "peers_environment", lambda: None)
    answer = run.run(["lightly", "info-nce-pytorch"], [1], {}, print)
    assert answer["peers"] == {}
    assert answer["absent"] == {
        "lightly": "not installed; `python benchmarks/peers_env/create.py` installs it",
        "info-nce-pytorch": "not installed; `pip install info-nce-pytorch` installs it",
    }


def test_an_interpreter_without_the_peer_is_named_as_the_reason() -> None:
    if find_spec("solo") is not None:
        pytest.skip("solo-learn is installed")
    answer = run.run(["solo-learn"], [1], {"solo-learn": sys.executable}, print)
    assert answer["absent"] == {"solo-learn": "cannot be measured: No module named 'solo'"}


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
