"""Reasons of known differences."""

from __future__ import annotations

from hypersphere.studies.parity import reasons
from hypersphere.studies.parity.measure import DIRECTION, FACTOR
from hypersphere.studies.parity.setups import PEERS


def test_every_reason_belongs_to_a_set_up() -> None:
    for peer, start, several in reasons.REASONS:
        matching = [each for each in PEERS[peer].setups if each.options.startswith(start)]
        assert matching, (peer, start)
        assert any(each.gathers for each in matching) or not several


def test_a_reason_is_for_its_verdict_and_for_one_or_several_processes() -> None:
    known = reasons.reason("simcse", "cl_forward", 2, FACTOR)
    assert known is not None and known.issue == "princeton-nlp/SimCSE#212"
    assert reasons.reason("simcse", "cl_forward", 2, DIRECTION) is None
    assert reasons.reason("simcse", "cl_forward", 1, FACTOR) is None
    assert reasons.reason("lightly", "cl_forward", 2, FACTOR) is None
