"""Gradients through the normalisation, and by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.reference.vectors import Gradients, Matrix, Rows, Vector, dot, norm, to_rows


def raw_gradient(row: Sequence[float], unit_gradient: Sequence[float]) -> Vector:
    """dL/dg = (I - hh^T)/|g| dL/dh, zero for a zero row."""
    length = norm(row)
    if length == 0.0:
        return [0.0 for _ in row]
    h = [v / length for v in row]
    radial = dot(h, unit_gradient)
    return [(u - radial * v) / length for u, v in zip(unit_gradient, h, strict=True)]


def raw_gradients(z: Rows, unit_gradients: Matrix) -> Matrix:
    """dL/dg_i = (I - h_i h_i^T)/|g_i| dL/dh_i, row by row."""
    return [raw_gradient(row, grad) for row, grad in zip(to_rows(z), unit_gradients, strict=True)]


def finite_difference(f: Callable[[Matrix, Matrix], float], z1: Rows, z2: Rows, eps: float = 1e-5) -> Gradients:
    """(f(z + eps e_ik) - f(z - eps e_ik))/(2 eps) for every entry of both views."""
    views = (to_rows(z1), to_rows(z2))
    out = []
    for view in views:
        gradient = [[0.0] * len(row) for row in view]
        for i, row in enumerate(view):
            for k, kept in enumerate(list(row)):
                row[k] = kept + eps
                above = f(*views)
                row[k] = kept - eps
                below = f(*views)
                row[k] = kept
                gradient[i][k] = (above - below) / (2.0 * eps)
        out.append(gradient)
    return out[0], out[1]
