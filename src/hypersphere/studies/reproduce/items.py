"""How an item is run, judged and written down."""

from __future__ import annotations

import csv
import importlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hypersphere.report import write_whole
from hypersphere.studies.reproduce.catalogue import ITEMS, check, cite

Rows = Sequence[Mapping[str, Any]]
Verdict = Literal["agrees", "partly", "does not agree", "undecided"]


@dataclass(frozen=True)
class Finding:
    """What an item found: the paper's claim, what was measured, and errata met on the way.

    clauses: the parts of the claim, each True where it holds, False where it does not, None where it was not measured.
    data: tables by name, written as CSV. figures: matplotlib figures by name, written as PNG and PDF.
    """

    claim: str
    measured: str
    clauses: Mapping[str, bool | None]
    errata: str = ""
    data: Mapping[str, Rows] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """All clauses hold, some do, none does; undecided if what was measured holds and something was not."""
        measured = [holds for holds in self.clauses.values() if holds is not None]
        if not all(measured):
            return "partly" if any(measured) else "does not agree"
        return "agrees" if measured and len(measured) == len(self.clauses) else "undecided"


def find(name: str) -> Callable[[bool], Finding]:
    """The function of an item, called with quick: True for a small version of the same computation."""
    check(name)
    module, _, function = ITEMS[name].code.partition(":")
    item: Callable[[bool], Finding] = getattr(
        importlib.import_module(f"hypersphere.studies.reproduce.{module}"), function
    )
    return item


def reproduce(name: str, out: Path, quick: bool = False) -> tuple[Finding, Path]:
    """Runs one item and writes its text, data and figures into ``out/paper/item``; returns the finding and the folder.

    The quick version has the folder ``out/paper/item-quick``, so that it never replaces a full result.
    """
    finding = find(name)(quick)
    folder = out / (f"{name}-quick" if quick else name)
    folder.mkdir(parents=True, exist_ok=True)
    for table, rows in finding.data.items():
        write_whole(folder / f"{table}.csv", _csv(rows))
    for figure, drawn in finding.figures.items():
        _sign(drawn, name, quick)
        for kind in ("png", "pdf"):
            write_whole(folder / f"{figure}.{kind}", _drawn(drawn, kind, cite(name)))
    write_whole(folder / "finding.md", page(name, finding, quick))
    return finding, folder


def page(name: str, finding: Finding, quick: bool = False) -> str:
    """What the paper claims, what was measured, which parts of the claim hold; then pictures and data."""
    lines = [f"# {ITEMS[name].title} ({name})", "", f"{cite(name)}.", "", f"**The paper:** {finding.claim}", ""]
    lines += [f"**Here:** {finding.measured}", "", f"**Verdict:** {finding.verdict}.", ""]
    words = {True: "holds", False: "does not hold", None: "not measured"}
    lines += [f"- {words[holds]}: {clause}" for clause, holds in finding.clauses.items()]
    lines += ["", f"**Errata met:** {finding.errata or 'none.'}"]
    if re.search(r"\bE\d", finding.errata):
        lines += ["", "The errata by number: docs/errata.md."]
    if quick:
        lines += ["", "This was the quick version: the same computation on fewer points."]
    lines += ["", *(f"![{figure}]({figure}.png)" for figure in finding.figures)]
    lines += ["", *(f"Data: [{table}.csv]({table}.csv)" for table in finding.data)]
    return "\n".join(lines) + "\n"


def _csv(rows: Rows) -> str:
    page = io.StringIO()
    writer = csv.DictWriter(page, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return page.getvalue()


def _sign(figure: Any, name: str, quick: bool) -> None:
    """Names paper and item below a figure."""
    width, height = figure.get_size_inches()
    words = f"{cite(name)}. Computed with: hypersphere reproduce {name}{' --quick' if quick else ''}"
    # A layout is fixed as it was: else a legend at the bottom moves with the edge of the page, onto the words.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, 1), figure.transFigure)
    figure.text(0.2 / width, -0.1 / height, words, size=7.5, color="#6b7885", va="top")


def _drawn(figure: Any, kind: str, title: str) -> bytes:
    page = io.BytesIO()
    figure.savefig(page, format=kind, dpi=160, bbox_inches="tight", metadata={"Title": title})
    return page.getvalue()
