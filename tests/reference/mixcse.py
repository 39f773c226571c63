"""MixCSE's code."""

from __future__ import annotations

from tests.reference.vectors import Matrix, Rows, dot, logsumexp, mean, to_rows, unit_rows


def mixed_with_the_next(z: Rows, mix: float) -> Matrix:
    """Raw rows are mixed, each with the next one, whatever their lengths; then scaled."""
    rows = to_rows(z)
    mixes = []
    for i, row in enumerate(rows):
        following = rows[(i + 1) % len(rows)]
        mixes.append([mix * p + (1 - mix) * q for p, q in zip(row, following, strict=True)])
    return unit_rows(mixes)


def mixcse(z1: Rows, z2: Rows, mixed: tuple[Matrix, Matrix], tau: float) -> float:
    """Cross-entropy of picking z2_i among: cosines of z1_i with all z2, with all mixes of z2
    but for a 0 at the one that is mostly z2_i, and of z1_i's mix with all z2 but for a 0 at the next row.

    ``mixed``: the mixes of z1 and of z2, which carry no gradient.
    """
    x, y, size = unit_rows(z1), unit_rows(z2), len(z1)
    losses = []
    for i in range(size):
        cosines = [dot(x[i], key) for key in y]
        cosines += [0.0 if (j + 1) % size == i else dot(x[i], mixed[1][j]) for j in range(size)]
        cosines += [0.0 if j == (i + 1) % size else dot(mixed[0][i], y[j]) for j in range(size)]
        losses.append(logsumexp([cosine / tau for cosine in cosines]) - cosines[i] / tau)
    return mean(losses)
