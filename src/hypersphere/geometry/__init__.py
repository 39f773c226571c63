"""Unit vectors and the measures between them."""

from hypersphere.geometry.configurations import cross_polytope, simplex, uniform_points
from hypersphere.geometry.distances import angle, chord, cosine, squared_chord, tangent
from hypersphere.geometry.unit import normalize, require_finite, unit, widened

__all__ = [
    "angle",
    "chord",
    "cosine",
    "cross_polytope",
    "normalize",
    "require_finite",
    "simplex",
    "squared_chord",
    "tangent",
    "uniform_points",
    "unit",
    "widened",
]
