"""Li and Pimentel-Alarcón 2024, Theorem 3.1: gradient and curvature of losses at embeddings on one line."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import torch

from hypersphere.figures.configurations import (
    Cell,
    draw_cells,
)
from hypersphere.objectives import create_objective, list_objectives
from hypersphere.objectives.registry import objective_class
from hypersphere.objectives.settings import REQUIRED
from hypersphere.studies.reproduce.cloa2024.curvature import (
    KINDS,
    PATTERNS,
    examine,
    ntxent_curvatures,
    numbers,
    subjects,
)
from hypersphere.studies.reproduce.items import Finding

_log = logging.getLogger("hypersphere.reproduce")
MINIMA = ("local minimum", "gradient field stable", "kink, a minimum")


def examined() -> list[str]:
    """The objectives that two views are enough for, and ``cloa``."""
    free = [name for name in list_objectives() if REQUIRED not in _defaults(name)]
    return sorted([*(name for name in free if not create_objective(name).needs), "cloa"])


def _defaults(name: str) -> list[object]:
    return [setting.default for setting in objective_class(name).settings().values()]


def theorem31(quick: bool = False) -> Finding:
    """Every registered objective where all embeddings lie on one line: gradient and curvature on the spheres."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    names = ["infonce", "ntxent", "met", "mvicreg", "vicreg", "cloa"] if quick else examined()
    patterns = list(PATTERNS)[::5] if quick else list(PATTERNS)
    rows, everyone = [], subjects(names)
    for place, subject in enumerate(everyone, start=1):
        _log.info("%s", subject.label, extra={"done": place - 1, "total": len(everyone)})
        rows += [examine(subject, pattern, draws=10 if quick else 40) for pattern in patterns]
    closed = []
    for N in (2, 4) if quick else (2, 3, 4, 6):
        for temperature in (0.5,) if quick else (0.1, 0.5, 1.0):
            errors, forms = ntxent_curvatures(N, temperature)
            closed.append({"N": N, "temperature": temperature, **forms, "largest_error": max(errors.values())})
    torch.set_num_threads(threads)
    return _theorem31(rows, closed, [each.label for each in everyone], patterns)


def _theorem31(
    rows: list[dict[str, Any]], closed: list[dict[str, Any]], labels: list[str], patterns: list[str]
) -> Finding:
    counts = Counter(row["found"] for row in rows)
    minima = [row for row in rows if row["found"] in MINIMA]
    four = [row for row in minima if not row["configuration"].startswith("two")]
    error = max(row["largest_error"] for row in closed)
    stationary = sum(row["found"] != "not stationary" for row in rows)
    sloped = dict.fromkeys(row["objective"] for row in rows if row["found"] == "not stationary")
    at_equal = Counter(row["found"] for row in rows if row["configuration"] == "all equal")
    ntxent = [row for row in rows if row["objective"] == "ntxent" and not row["configuration"].startswith("two")]
    cells = {
        (row["objective"], pattern): Cell(row["found"], numbers(row))
        for row in rows
        for pattern in patterns
        if pattern.replace("\n", " ") == row["configuration"]
    }
    minimum_free = not any(row["found"] == "local minimum" for row in ntxent)
    return Finding(
        claim="If all embeddings are ±z*, the loss is at a local minimum: shown for InfoNCE over 2N embeddings "
        "(NT-Xent here), and said to hold for most losses in use.",
        measured=f"Stationary in {stationary} of {len(rows)} cases ({len(labels)} objectives, {len(patterns)} "
        f"sign patterns); the exceptions, {', '.join(sloped)}, are not functions of the cosines between "
        "embeddings. Found: "
        + "; ".join(f"{kind} {counts[kind]}" for kind in KINDS if counts[kind])
        + ". With all vectors equal: "
        + "; ".join(f"{kind} {at_equal[kind]}" for kind in KINDS if at_equal[kind])
        + ". At a kink the loss has no derivative (distances and angles of coincident points, ties of negatives): the "
        "zero slope is what is set there, and only nearby values count"
        + f". NT-Xent is a minimum at {'none' if minimum_free else 'some'} of the patterns with four instances; "
        "for two instances, opposed, the line is the regular simplex and so the global minimum. With four "
        "instances, minima or stable fields: "
        + (", ".join(f"{row['objective']} ({row['configuration']})" for row in four) or "none")
        + ". The curvatures of the summed NT-Xent at all equal are -4N/((2N-1)τ) and (2/τ)(2-2N/(2N-1)) to "
        f"{error:.0e}.",
        clauses={
            "NT-Xent: the gradient is zero": not any(row["found"] == "not stationary" for row in ntxent),
            "NT-Xent: a local minimum": all(row["found"] in MINIMA for row in ntxent),
            "most losses: the gradient is zero": len(sloped) < len(labels) / 2,
            "most losses: a local minimum": len({row["objective"] for row in four}) > len(labels) / 2,
        },
        errata="E10: 'local minimum' should read 'stationary', in general a strict saddle. The probability in "
        "the proof is 1/(2N-1), not -log of it.",
        fault="The claim: a zero gradient was taken for a minimum. The curvatures of NT-Xent agree with their closed "
        f"form to {error:.0e}, and one of them is negative at all equal whatever N and τ are, so neither the "
        "implementation nor the number of points is at fault."
        if minimum_free
        else "",
        data={"curvature": rows, "ntxent_closed_form": closed},
        figures={
            "curvature": draw_cells(
                "All embeddings on one line: smallest … largest curvature (or slope)",
                labels,
                patterns,
                cells,
                KINDS,
            )
        },
    )
