"""The reproduced items of the papers, published beside measured, from a folder that ``reproduce`` has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersphere.documents import read_json
from hypersphere.explorer.folders import NotHereError, inside
from hypersphere.messages import one_line, reason
from hypersphere.studies.reproduce.catalogue import ITEMS, PAPERS, paper_of

FIELDS = ("verdict", "published", "here", "claim", "measured", "clauses", "fault", "errata", "command", "about")
MOST_ROWS = 60  # of a table on the page; its CSV file has all


def shipped_results() -> Path | None:
    """The folder ``results`` of a source tree; an installed package has none."""
    folder = Path(__file__).parents[3] / "results"
    return folder if (folder / "README.md").is_file() else None


def list_papers(results: Path | None, tables: bool = True) -> dict[str, Any]:
    """Every paper with its items; an item that was not run has the command that runs it. ``tables``: with data."""
    papers = [
        {"name": name, "short": paper.short, "title": paper.title, "venue": paper.venue,
         "items": [_item(results, each, tables) for each in ITEMS if paper_of(each) == name]}
        for name, paper in PAPERS.items()
    ]  # fmt: skip
    there = results is not None
    sentence = "" if there else "No results were given: --results DIR names a folder that reproduce has written."
    return {"papers": papers, "sentence": sentence}


def _item(results: Path | None, name: str, tables: bool) -> dict[str, Any]:
    item = ITEMS[name]
    known: dict[str, Any] = {"name": name, "title": item.title, "place": item.place, "verdict": "not run yet",
                             "command": f"hypersphere reproduce {name}", "figures": [], "tables": {}}  # fmt: skip
    if results is None:
        return known
    try:
        tree = read_json(inside(results, f"{name}/results.json"), dict)
        known |= {field: tree[field] for field in FIELDS if field in tree}
        known["figures"] = figures_of(results, name)
        if tables:
            known["tables"] = {title: rows[:MOST_ROWS] for title, rows in tree.get("tables", {}).items()}
            known["rows"] = {title: len(rows) for title, rows in tree.get("tables", {}).items()}
    except NotHereError:
        pass
    except (OSError, ValueError, TypeError, AttributeError) as error:
        known["fault"] = f"The result cannot be read: {one_line(reason(error)).replace(str(results), '')}."
    return known


def figures_of(results: Path, name: str) -> list[str]:
    """The pictures of an item, as paths below the folder of results; links that lead out of it are left out."""
    paths = sorted(f"{name}/{path.name}" for path in inside(results, name).glob("*.png"))
    return [path for path in paths if _is_inside(results, path)]


def _is_inside(results: Path, path: str) -> bool:
    try:
        return inside(results, path).is_file()
    except NotHereError:
        return False
