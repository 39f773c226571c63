"""The published numbers are copied rightly: averages are those of their sets, tables agree with each other."""

from statistics import fmean

import pytest

from hypersphere.studies.reproduce.li2024 import published


@pytest.mark.parametrize("table", [published.STS_SCORES, published.TRANSFER_SCORES])
def test_an_average_is_that_of_the_seven_sets(table):
    complete = {loss: row for loss, row in table.items() if None not in row}
    assert len(complete) == 6
    for loss, (*sets, average) in complete.items():
        assert average == pytest.approx(fmean(sets), abs=0.01), loss


def test_the_last_stage_is_the_modified_loss_and_the_first_is_as_far_below_as_the_change():
    for loss, (original, *_, last) in published.STAGE_SCORES.items():
        average, change = published.STS_SCORES[loss][-1], published.STS_CHANGES[loss][-1]
        assert last == average, loss
        assert average - original == pytest.approx(change, abs=0.051), loss
