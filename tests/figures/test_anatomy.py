"""Anatomies side by side."""

from __future__ import annotations

import hypersphere as hs
from hypersphere.figures.anatomy import plot
from hypersphere.testing.example import views


def test_losses_side_by_side_share_their_axes() -> None:
    z1, z2 = views(12, 5)
    anatomies = [hs.dissect(hs.create_objective(name), z1, z2) for name in ("infonce", "met", "mhe")]
    axes = plot(anatomies).axes
    for row in range(5):  # five panels of each loss follow one another
        assert len({axis.get_ylim() for axis in axes[row::5]}) == 1
    assert len({axis.get_xlim() for axis in axes[1::5]}) == 1


def test_a_figure_names_what_it_is_of() -> None:
    z1, z2 = views(12, 5)
    anatomy = hs.dissect(hs.create_objective("infonce"), z1, z2)
    assert "my run" in plot(anatomy, source="my run").texts[1].get_text()
