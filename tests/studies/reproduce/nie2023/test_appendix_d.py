"""The lower bounds of appendix D."""

import pytest

from hypersphere.studies.reproduce.nie2023.appendix_d import appendix_d


def test_the_lower_bounds_are_reached_at_the_simplex():
    row = appendix_d(quick=True).data["bounds"][-1]
    for name in ("uniform", "infonce"):
        assert row[name] == pytest.approx(row[f"{name} bound"], abs=1e-9)
