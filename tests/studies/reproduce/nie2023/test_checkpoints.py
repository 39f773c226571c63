"""Figure 1 in worlds that were made up."""

import pytest

from hypersphere.studies.reproduce.nie2023.checkpoints import fig1
from hypersphere.studies.reproduce.nie2023.curves import find_row, rises
from tests.studies.reproduce import fabricated
from tests.studies.reproduce.nie2023.worlds import OVERFIT, STS_PUBLISHED, both_contests, curves, finished, noise


def spoken(cell):
    return list(STS_PUBLISHED).index(cell.objective.partition(" ")[0])  # without a margin


def test_fig1_agrees_where_quality_is_not_in_the_coordinates():
    def make(cell):
        pairs = curves(cell, OVERFIT.get(cell.objective, ()), 0.005)
        own = (40.0, 47.0, 35.0, 52.0, 44.0, 31.0, 50.0, 38.0)[spoken(cell)]
        return finished(cell, pairs=pairs, score=lambda _: own + noise(cell, "dev", 0.1))

    finding = fig1(both_contests(make))
    assert finding.verdict == "agrees", (finding.clauses, finding.measured)
    assert "rises again by 0.6" in finding.here  # RISE, less the noise


def test_fig1_does_not_agree_where_the_coordinates_decide_and_infonce_overfits():
    def make(cell):
        overfits = ("infonce", "uniformity") if cell.objective == "infonce" else ()
        pairs = curves(cell, overfits, 0.005, 0.3 * spoken(cell), by_seed=0.1)
        pairs = [{**each, "alignment": each["alignment"] + (0.1 * each["step"] / 40 if spoken(cell) == 2 else 0)}
                 for each in pairs]  # fmt: skip
        return finished(cell, pairs=pairs, score=lambda each: 30 - 10 * each["uniformity"] - 5 * each["alignment"])

    finding = fig1(both_contests(make))
    assert finding.verdict == "does not agree", (finding.clauses, finding.measured)
    assert "explain 100%" in finding.fault and "b to d:" in finding.fault


@pytest.mark.parametrize("overfitting", ["nie-objectives", "nie-margins"])
def test_who_overfits_is_read_from_the_longer_runs(overfitting):
    def make(name):
        return lambda cell: finished(
            cell, pairs=curves(cell, OVERFIT.get(cell.objective, ()) if name == overfitting else (), 0.005)
        )

    names = "nie-objectives", "nie-margins"
    clauses = fig1({name: fabricated.held(name, make(name), "small") for name in names}).clauses
    rises_again = clauses["d: with L_dcl, all three rise again by more than with L_cl"]
    assert (rises_again is True) == (overfitting == "nie-margins")


def test_fig1_is_undecided_in_noise():
    def make(cell):
        pairs = curves(cell, size=0.4)
        return finished(cell, pairs=pairs, score=lambda each: 40 + noise(cell, f"dev {each['step']}", 5.0))

    finding = fig1(both_contests(make))
    assert finding.verdict == "undecided", finding.clauses


def test_a_curve_with_one_evaluation_cannot_rise():
    def make(cell):
        return finished(cell, pairs=[each for each in curves(cell) if each["step"] in (0, 40)])

    held = both_contests(make)
    assert not rises(find_row(held["nie-margins"].comparison, "dcl"), "infonce")
    finding = fig1(held)
    assert all(holds is None for clause, holds in finding.clauses.items() if not clause.startswith("a"))
    assert "no curve can be seen to rise" in finding.measured
