"""Li and Pimentel-Alarcón 2024 (CLOA): what points on one line are to a loss, and the taxonomy of losses."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from hypersphere.figures.configurations import Cell, Method, draw_cells, draw_placement, draw_taxonomy
from hypersphere.objectives import list_objectives
from hypersphere.studies.reproduce.cloa_curvature import (
    KINDS,
    PATTERNS,
    examine,
    ntxent_curvatures,
    numbers,
    subjects,
)
from hypersphere.studies.reproduce.cloa_taxonomy import PLACED, PUBLISHED
from hypersphere.studies.reproduce.items import Finding

# Families of probability models, and how they begin in the taxonomy; the first that fits counts.
FAMILIES = {
    "no gradient through the probabilities": ("softmax over all pairs", "softmax of the negatives"),
    "softmax": ("softmax", "the base"),
    "softmax without the positive": ("decoupled",),
    "each pair by itself": ("sigmoid",),
    "no probability": ("none",),
}


def theorem31(quick: bool = False) -> Finding:
    """Every registered objective where all embeddings lie on one line: slope and curvature on the spheres."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    names = ["infonce", "ntxent", "met", "mvicreg", "vicreg", "cloa"] if quick else list_objectives()
    patterns = list(PATTERNS)[::5] if quick else list(PATTERNS)
    rows, everyone = [], subjects(names)
    for place, subject in enumerate(everyone, start=1):
        print(f"{place}/{len(everyone)} {subject.label}", flush=True)
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
    minima = [row for row in rows if row["found"] in ("local minimum", "gradient field stable", "kink, a minimum")]
    four = [row for row in minima if not row["configuration"].startswith("two")]
    error = max(row["largest_error"] for row in closed)
    stationary = sum(row["found"] != "not stationary" for row in rows)
    sloped = dict.fromkeys(row["objective"] for row in rows if row["found"] == "not stationary")
    at_equal = Counter(row["found"] for row in rows if row["configuration"] == "all equal")
    ntxent = [row for row in rows if row["objective"] == "ntxent" and not row["configuration"].startswith("two")]
    upheld = all(row["found"] == "local minimum" for row in ntxent)
    cells = {
        (row["objective"], pattern): Cell(row["found"], numbers(row))
        for row in rows
        for pattern in patterns
        if pattern.replace("\n", " ") == row["configuration"]
    }
    minimum_free = not any(row["found"] == "local minimum" for row in ntxent)
    return Finding(
        title="Embeddings on one line: stationary, and then?",
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
        agrees=upheld,
        errata="E10: 'local minimum' should read 'stationary', in general a strict saddle. The probability in "
        "the proof is 1/(2N-1), not -log of it.",
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


def table1(quick: bool = False) -> Finding:
    """The taxonomy affinity → probability → divergence, published numbers, and the registry placed in it."""
    here: dict[str, list[str]] = {}
    for name, place in PLACED.items():
        if place.published:
            here.setdefault(place.published, []).append(name)
    published = [
        {
            "method": row.method,
            "group": row.group,
            "affinity": row.affinity,
            "probability": row.probability,
            "divergence": row.divergence,
            "top1": row.top1,
            "top5": row.top5,
            "here": ", ".join(here.get(row.method, [])),
            "question": row.question,
        }
        for row in PUBLISHED
    ]
    placed = [
        {
            "objective": name,
            "affinity": PLACED[name].affinity,
            "probability": PLACED[name].probability,
            "divergence": PLACED[name].divergence,
            "nearest_row": PLACED[name].published,
        }
        for name in list_objectives()
        if name in PLACED
    ]
    methods = [
        Method(
            row.method,
            row.group,
            (row.affinity, row.probability, row.divergence),
            row.top1,
            ", ".join(here.get(row.method, [])) or "–",
            bool(row.question),
        )
        for row in PUBLISHED
    ]
    given = [row.top1 for row in PUBLISHED if row.top1 is not None]
    shared = sum(row.probability == "softmax" and row.affinity == "cosine" for row in PUBLISHED)
    fitting = sum(row["probability"] != "none" for row in placed)
    questions = " ".join(f"{row.method}: {row.question}" for row in PUBLISHED if row.question)
    return Finding(
        title="Losses as affinity, probability and divergence",
        claim="Contrastive losses differ in three choices: an affinity, a map to probabilities, a divergence; "
        "ImageNet-1k "
        f"top-1 with ResNet-50 is listed for {len(given)} of {len(PUBLISHED)} methods, {min(given)} to {max(given)} %.",
        measured=f"Copied, not measured: {shared} of {len(PUBLISHED)} rows are cosine with softmax. Of the "
        f"{len(placed)} "
        f"registered objectives {fitting} have a probability model; the others ({len(placed) - fitting}) are energies, "
        "margins or feature statistics, for which the middle column is empty, as the paper leaves it for VICReg "
        "and Barlow "
        "Twins. The accuracies come from different papers and training lengths: they do not rank the losses.",
        agrees=None,
        errata=questions + " The paper's 'distance metric s' is a similarity (E10).",
        data={"published": published, "registry": placed},
        figures={"taxonomy": draw_taxonomy(methods), "registry": draw_placement(_groups())},
    )


def _groups() -> list[tuple[str, list[tuple[str, ...]]]]:
    """The registry by family of its probability model; a row: name, affinity, probability, divergence, published."""
    families: dict[str, list[tuple[str, ...]]] = {family: [] for family in FAMILIES}
    for name, place in PLACED.items():
        family = next(family for family, begins in FAMILIES.items() if place.probability.startswith(begins))
        published = place.published or "–"
        families[family].append((name, place.affinity, place.probability, place.divergence, published))
    return list(families.items())
