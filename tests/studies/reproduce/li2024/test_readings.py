"""Readings from a contest: the weights as given, and trends."""

from hypersphere.studies.reproduce.items import find
from hypersphere.studies.reproduce.li2024.readings import (
    below,
    beyond,
    extreme,
    given_weights,
    minus,
    trained_score,
    trend,
    views,
)
from tests.studies.reproduce.fabricated import row
from tests.studies.reproduce.li2024.worlds import sweeps


def test_the_weights_as_given_do_not_count_as_trained():
    held = sweeps()["li-sweeps"]
    baseline = held.comparison.rows[1]
    run = baseline.runs[0]
    run.result["history"] = {"0": {"stsb_dev": 60.0}, "40": {"stsb_dev": 20.0}}
    run.result["best_step"] = 0
    assert trained_score(baseline)[run.seed] == 20.0
    finding = find("li2024/fig7")({"li-sweeps": held})
    assert {line["seeds"] for line in finding.data["shares"] if line["encoder"] == "the trained encoder"} == {2}


def test_a_constant_sweep_has_no_trend():
    assert trend([{1: 2.0}, {1: 2.0}, {1: 2.0}]) == {1: 0.0}


def test_readings_leave_out_what_was_not_measured():
    runs = row({"measured": [{"step": 0, "ratio": 3.0}, {"step": 9, "ratio": 1.0}], "best_step": 9, "views": {"a": 1}},
               {"measured": [{"step": 0, "ratio": None}], "best_step": 0, "views": {"a": 2}}, "diverged")  # fmt: skip
    assert extreme(runs, "ratio", min) == {43: 1.0} and extreme(runs, "ratio", max) == {43: 3.0}
    assert extreme(None, "ratio", min) == {}
    assert views(runs) == {43: {"a": 1}} and set(views(runs, trained=False)) == {43, 44}
    assert given_weights([runs]) == 1


def test_a_bound_is_compared_with_the_mean_over_seeds():
    values = {1: 1.4, 2: 1.5, 3: 1.6}
    assert [beyond(values, bound) for bound in (1.0, 1.5, 2.0)] == [True, None, False]
    assert [below(values, bound) for bound in (1.0, 1.5, 2.0)] == [False, None, True]
    assert minus(values, {2: 1.0, 9: 0.0}) == {2: 0.5}
