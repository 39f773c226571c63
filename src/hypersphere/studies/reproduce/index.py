"""The list of all items: published beside measured, with the verdict. This module writes ``results/README.md``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hypersphere.documents import read_json
from hypersphere.report import atomic_write, markdown_table
from hypersphere.studies.reproduce.catalogue import ITEMS, PAPERS, list_items

NOT_RUN = "not run yet"
LONGEST = 110  # characters of a cell


def write_index(out: Path) -> Path:
    """``out/README.md`` from the results.json of every item in ``out``."""
    return atomic_write(out / "README.md", index(out))


def index(out: Path) -> str:
    """The page: a table for each paper, then how to compute it again."""
    lines = ["# Results", "", "Every table and figure of the papers: what was published, what was measured here, and "
             "whether they agree. This page is written by `hypersphere reproduce`.", "", _counts(out), ""]  # fmt: skip
    for paper, cited in PAPERS.items():
        lines += [f"## {cited.short}: {cited.title} ({cited.venue})", ""]
        rows = [_row(name, results_of(out, name)) for name in list_items(paper)]
        lines += [markdown_table(["item", "place", "published", "measured", "verdict", "minutes"], rows), ""]
    lines += [
        "`hypersphere reproduce PAPER/ITEM --out results` computes one again; a contest whose runs stand in "
        "`results/studies/` is not trained again unless its file is removed. `hypersphere reproduce --all` computes "
        "all. Verdicts: agrees, partly, does not agree, undecided (the intervals do not decide, or a part was not "
        "measured). Each part of a claim is judged by a 95 % interval of its own, so of twenty parts about which there "
        "is nothing to find one may be decided by chance.",
        "",
    ]
    return "\n".join(lines)


def results_of(out: Path, name: str) -> dict[str, Any] | None:
    """The results.json of an item, if it was run."""
    path = out / name / "results.json"
    return read_json(path, dict) if path.is_file() else None


def _counts(out: Path) -> str:
    verdicts = [tree["verdict"] for name in ITEMS if (tree := results_of(out, name)) is not None]
    said = [f"{verdicts.count(each)} {each}" for each in ("agrees", "partly", "does not agree", "undecided")]
    return f"{len(verdicts)} of {len(ITEMS)} items were run: {', '.join(said)}."


def _row(name: str, tree: dict[str, Any] | None) -> list[str]:
    item = ITEMS[name]
    if tree is None:
        return [name, item.place, "", "", NOT_RUN, ""]
    minutes = sum(each.get("minutes", 0.0) for each in tree["contests"].values()) or item.minutes
    published, here = tree["published"] or _first(tree["claim"]), tree["here"] or _first(tree["measured"])
    return [f"[{name}]({name}/finding.md)", item.place, _cell(published), _cell(here), tree["verdict"], f"{minutes:g}"]


def _first(text: str) -> str:
    """The first sentence.

    >>> _first("Eq. 4 of Li et al. holds. So does Eq. 5.")
    'Eq. 4 of Li et al. holds'
    """
    return re.split(r"(?<!Eq)(?<!al)\. ", text)[0].rstrip(".")


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"
