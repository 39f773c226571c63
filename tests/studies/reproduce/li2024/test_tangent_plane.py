"""Vectors at an angle from the anchor."""

import math

import pytest

from hypersphere.geometry import tangent
from hypersphere.studies.reproduce.li2024.tangent_plane import ANCHOR, at, xy


def test_a_vector_has_its_angle_from_the_anchor_and_its_direction_around_it():
    vector = at(50, 20)
    assert (vector @ ANCHOR.T).item() == pytest.approx(math.cos(math.radians(50)))
    x, y = xy(tangent(vector, ANCHOR)[0])
    assert math.hypot(x, y) == pytest.approx(math.sin(math.radians(50)))
    assert math.degrees(math.atan2(y, x)) == pytest.approx(20)
