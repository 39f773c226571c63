"""The page: reasons of known differences, set-ups that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersphere.studies.parity import page, reasons
from hypersphere.studies.parity.measure import DIRECTION, EQUAL, FACTOR
from hypersphere.studies.parity.setups import PEERS

ROOT = Path(__file__).parents[3]


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
