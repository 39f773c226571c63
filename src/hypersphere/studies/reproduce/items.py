"""The items that can be reproduced, by name, and how one is run and written down."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypersphere.names import did_you_mean
from hypersphere.report import write_whole

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Finding:
    """What an item found: the paper's claim, what was measured, whether they agree, and errata met on the way.

    data: tables by name, written as CSV. figures: matplotlib figures by name, written as PNG and PDF.
    """

    title: str
    claim: str
    measured: str
    agrees: bool | None  # None: the paper makes no claim that can be checked here
    errata: str = ""
    data: Mapping[str, Rows] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)


Item = Callable[[bool], Finding]  # called with quick: True for a small version of the same computation

# Name -> module below this package and its function.
ITEMS: dict[str, str] = {
    "nie2023/fig2": "nie2023.maps:fig2",
    "nie2023/fig4": "nie2023.maps:fig4",
    "nie2023/bounds": "nie2023.bounds:bounds",
    "nie2023/appendix-d": "nie2023.appendix_d:appendix_d",
    "nie2023/mixup-bounds": "nie2023.mixup:mixup_bounds",
    "li2024/table1": "li2024.table1:table1",
    "li2024/table2": "li2024.table2:table2",
    "li2024/fig2": "li2024.dissipation:fig2",
    "li2024/fig3": "li2024.hardest:fig3",
    "li2024/fig4": "li2024.ratio:fig4",
    "li2024/fig10": "li2024.dissipation:fig10",
    "li2024/lemma1": "li2024.lemma1:lemma1",
    "li2024/fig11": "li2024.geometry:fig11",
    "li2024/fig12": "li2024.geometry:fig12",
    "koromilas2024/minimisers": "koromilas2024.minimisers:minimisers",
    "koromilas2024/batch-independence": "koromilas2024.batch_independence:batch_independence",
    "cloa2024/theorem31": "cloa2024.theorem31:theorem31",
    "cloa2024/table1": "cloa2024.table1:table1",
}


def list_items() -> list[str]:
    return sorted(ITEMS)


def find(name: str) -> Item:
    if name not in ITEMS:
        raise ValueError(f"there is nothing to reproduce called {name!r}{did_you_mean(name, ITEMS)} (see --list)")
    module, _, function = ITEMS[name].partition(":")
    found: Item = getattr(importlib.import_module(f"hypersphere.studies.reproduce.{module}"), function)
    return found


def reproduce(name: str, out: Path, quick: bool = False) -> Path:
    """Runs one item and writes its text, data and figures into ``out/paper/item``; returns the text's path.

    The quick version has the folder ``out/paper/item-quick``, so that it never replaces a full result.
    """
    finding = find(name)(quick)
    folder = out / (f"{name}-quick" if quick else name)
    folder.mkdir(parents=True, exist_ok=True)
    for table, rows in finding.data.items():
        write_whole(folder / f"{table}.csv", _csv(rows))
    for figure, drawn in finding.figures.items():
        for kind in ("png", "pdf"):
            write_whole(folder / f"{figure}.{kind}", _drawn(drawn, kind))
    verdict = {True: "agrees", False: "does not agree", None: "no claim to check"}[finding.agrees]
    lines = [f"# {finding.title} ({name})", "", f"**The paper:** {finding.claim}", "", f"**Here:** {finding.measured}"]
    lines += ["", f"**Verdict:** {verdict}."]
    lines += ["", f"**Errata met:** {finding.errata or 'none.'}"]
    if quick:
        lines += ["", "This was the quick version: the same computation on fewer points."]
    lines += ["", *(f"![{figure}]({figure}.png)" for figure in finding.figures)]
    lines += ["", *(f"Data: [{table}.csv]({table}.csv)" for table in finding.data)]
    text = folder / "finding.md"
    write_whole(text, "\n".join(lines) + "\n")
    return text


def _csv(rows: Rows) -> str:
    page = io.StringIO()
    writer = csv.DictWriter(page, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return page.getvalue()


def _drawn(figure: Any, kind: str) -> bytes:
    page = io.BytesIO()
    figure.savefig(page, format=kind, dpi=160, bbox_inches="tight")
    return page.getvalue()
