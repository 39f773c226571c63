"""Table 1 in worlds that were made up."""

import pytest

from hypersphere.studies.reproduce.nie2023.scores import table1
from tests.studies.reproduce.nie2023.worlds import (
    STS_PUBLISHED,
    STS_REVERSED,
    TRANSFER_PUBLISHED,
    TRANSFER_REVERSED,
    contest,
    curves,
    finished,
    labelled,
    noise,
    objectives,
)


def test_table1_agrees_where_the_published_order_holds():
    finding = table1(objectives(STS_PUBLISHED, TRANSFER_PUBLISHED))
    assert finding.verdict == "agrees", finding.clauses
    assert not finding.fault and "DCL+ − DCL +4.8" in finding.here


def test_table1_does_not_agree_where_the_order_is_reversed():
    finding = table1(objectives(STS_REVERSED, TRANSFER_REVERSED))
    assert finding.verdict == "does not agree" and set(finding.clauses.values()) == {False}
    assert finding.fault.startswith("Claim") and "L_mpt 20%" in finding.fault


@pytest.mark.parametrize("overfits", [(), ("infonce",)])
def test_table1_blames_the_scale_where_the_decoupled_losses_never_overfit(overfits):
    def make(cell):
        pairs = [{**each, "infonce": each["infonce"] - each["step"] / 1000} for each in curves(cell, overfits)]
        shown = labelled(STS_REVERSED[cell.objective] + noise(cell, "sts", 0.1), TRANSFER_REVERSED[cell.objective])
        return finished(cell, pairs=pairs, gaps=(0.1,), **shown)

    fault = table1(contest("nie-objectives", make)).fault
    assert fault.startswith("Claim" if overfits else "Scale: in 6 of 6 runs"), fault
    assert ("6 of 6 runs with L_a&u or L_dcl overfit" in fault) == bool(overfits)


def test_table1_agrees_partly_where_the_gain_is_too_small():
    finding = table1(objectives({**STS_PUBLISHED, "dcl": 49.0, "align_uniform": 49.0}, TRANSFER_PUBLISHED))
    assert finding.verdict == "partly"
    assert [clause for clause, holds in finding.clauses.items() if holds is False] == ["similarity: by 3 to 7 points"]


def test_table1_is_undecided_in_noise():
    equal = dict.fromkeys(STS_PUBLISHED, 50.0)
    finding = table1(objectives(equal, equal, size=4.0))
    assert finding.verdict == "undecided" and set(finding.clauses.values()) == {None}


def test_table1_takes_stsb_where_the_seven_sets_are_missing():
    finding = table1(objectives(STS_PUBLISHED, TRANSFER_PUBLISHED, names=("stsb_test",)))
    assert finding.verdict == "undecided"
    assert "STS-B test stands for their average" in finding.measured and "(STS-B test)" in finding.here
    assert finding.clauses["similarity: by 3 to 7 points"] is True


def test_table1_blames_scale_where_training_does_not_help():
    finding = table1(objectives({**STS_REVERSED, "untrained": 60.0}, TRANSFER_REVERSED))
    assert finding.fault.startswith("Scale")
