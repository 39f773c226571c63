"""Figures 8 and 9 in worlds that were made up."""

from hypersphere.studies.reproduce.li2024.while_training import fig9
from tests.studies.reproduce.li2024.worlds import sweeps


def test_angles_at_their_bounds_are_undecided():
    contests = sweeps()
    for row in contests["li-sweeps"].comparison.rows:
        for place, run in enumerate(row.runs):
            for each in run.result["measured"]:
                each["positive_angle_spread"] = 0.1 + (0.05, -0.05, 0.01)[place]
    assert fig9(contests).verdict == "undecided"
