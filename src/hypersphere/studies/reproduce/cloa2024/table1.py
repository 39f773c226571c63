"""Li and Pimentel-Alarcón 2024, Table 1: losses as affinity, probability and divergence."""

from __future__ import annotations

from hypersphere.figures.configurations import (
    Method,
    draw_placement,
    draw_taxonomy,
)
from hypersphere.objectives import list_objectives
from hypersphere.studies.reproduce.cloa2024.taxonomy import PLACED, PUBLISHED
from hypersphere.studies.reproduce.items import Finding

# Families of probability models, and how they begin in the taxonomy; the first that fits counts.
FAMILIES = {
    "no gradient through the probabilities": ("softmax over all pairs", "softmax of the negatives"),
    "softmax": ("softmax", "the base", "the parts"),
    "softmax without the positive": ("decoupled",),
    "each pair by itself": ("sigmoid",),
    "no probability": ("none",),
}


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
        claim="Contrastive losses differ in three choices: an affinity, a map to probabilities, a divergence; "
        "ImageNet-1k "
        f"top-1 with ResNet-50 is listed for {len(given)} of {len(PUBLISHED)} methods, {min(given)} to {max(given)} %.",
        measured=f"Copied, not measured: {shared} of {len(PUBLISHED)} rows are cosine with softmax. Of the "
        f"{len(placed)} "
        f"registered objectives {fitting} have a probability model; the others ({len(placed) - fitting}) are energies, "
        "margins or feature statistics, for which the middle column is empty, as the paper leaves it for VICReg "
        "and Barlow "
        "Twins. The accuracies come from different papers and training lengths: they do not rank the losses.",
        clauses={"the accuracies listed": None},
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
