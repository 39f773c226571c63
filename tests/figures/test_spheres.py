"""Point sets in R³: the edges of the bodies that they span, and the view."""

from __future__ import annotations

import numpy as np
import pytest

from hypersphere.figures import Panel, Strip, draw_spheres
from hypersphere.figures.spheres import _edges, _view
from hypersphere.geometry import cross_polytope, simplex, uniform_points


def test_the_edges_are_those_of_the_platonic_bodies() -> None:
    octahedron = cross_polytope(3).numpy()
    assert len(_edges(simplex(4, 3).numpy())) == 6 and len(_edges(octahedron)) == 12
    assert all(abs(octahedron[i] @ octahedron[j]) < 1e-12 for i, j in _edges(octahedron))  # none between opposite ends


def test_the_view_turns_and_does_not_stretch() -> None:
    points = uniform_points(20, 3).numpy()
    np.testing.assert_allclose(_view(points) @ _view(points).T, points @ points.T, atol=1e-12)
    right, up, near = _view(np.array([[0.0, 0.0, 1.0]]))[0]
    assert right == pytest.approx(0) and up > near > 0  # the pole is up, and leans to the reader


def test_strips_with_and_without_a_scale_are_one_picture() -> None:
    few = Panel("known optimum", simplex(4, 3).numpy(), "109.5°", tone="known")
    cloud = uniform_points(30, 3).numpy()
    many = Panel("random", cloud, "3°", "typical 9°", "short", np.linspace(0, 9, 30))
    picture = draw_spheres("title", [Strip("few", [few]), Strip("many", [many, many], ("angle (°)", 9.0))], dpi=20)
    assert picture.startswith(b"\x89PNG")
