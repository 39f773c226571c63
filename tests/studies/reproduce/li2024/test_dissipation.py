"""Simulated dissipation at the reference points."""

from hypersphere.studies.reproduce.li2024 import dissipation
from hypersphere.studies.reproduce.li2024.dissipation import reference_differences


def test_a_simulation_of_another_set_up_decides_nothing(monkeypatch):
    monkeypatch.setattr(dissipation, "reference_differences", lambda *_: {(0.0, 0.0): [0.5]})
    assert dissipation.fig10(quick=True).verdict == "undecided"


def test_dissipation_at_the_reference_points():
    """Two decimals of a simulation of 4000 batches beside 1000 of ours: four standard errors of each."""
    for point, differences in reference_differences(("infonce", "arccon", "mpt", "met"), 1000).items():
        assert max(map(abs, differences)) < 0.06, point
