"""The taxonomy has every objective."""

from __future__ import annotations

from hypersphere.objectives import list_objectives
from hypersphere.studies.reproduce.cloa2024.taxonomy import PLACED, PUBLISHED


def test_taxonomy_places_every_registered_objective() -> None:
    assert set(PLACED) == set(list_objectives())
    assert {place.published for place in PLACED.values()} - {""} <= {row.method for row in PUBLISHED}
    assert [row.method for row in PUBLISHED if row.question] == ["PCL"]
