"""The hardest negative's share of the gradient, with the released program's filter and without."""

import math

import pytest

import hypersphere as hs
from hypersphere.studies.reproduce.li2024.hardest import fig3


def test_hardest_share_without_filter_matches_the_reference():
    grid = hs.anatomy.AngleGrid((math.pi / 6,) * 2, (math.pi / 2,) * 2, points=1, batches=1000)
    share = hs.anatomy.simulate("infonce", grid, hs.anatomy.hardest_share, temperature=0.05).item()
    assert share == pytest.approx(0.230, abs=0.015)


def test_the_filter_makes_the_hardest_take_over():
    finding = fig3(quick=True)
    last = [row for row in finding.data["fig3"] if row["temperature"] == 0.05][-1]
    assert last["share as released"] == 1
    assert last["share"] < 0.05
