"""What the paper prints, counted."""

from __future__ import annotations

from hypersphere.studies.reproduce.cloa2024 import published


def test_published_cells_are_counted_from_the_published_table() -> None:
    assert published.cells4() == (15, 9)
    assert [round(gain, 2) for gain in sorted(published.gains3(0.1))] == [24.37, 26.14, 30.07, 37.09]


def test_a_class_among_five_is_never_rarer_than_the_first() -> None:
    assert all(top5 >= top1 for cells in published.TABLE4.values() for top1, top5 in cells)
    assert all(list(row) == sorted(row) for row in published.TABLE3.values())  # more labels, more accuracy
