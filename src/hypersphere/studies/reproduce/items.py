"""Runs, judges and writes an item."""

from __future__ import annotations

import csv
import importlib
import io
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hypersphere.documents import json_safe
from hypersphere.report import atomic_write
from hypersphere.studies.reproduce.catalogue import ITEMS, PAPERS, check, cite, paper_of
from hypersphere.studies.reproduce.contest import Held, Scale, hold, provenance

MOST_ROWS = 2000  # of a table in results.json; a larger table, such as a map, is only in its CSV file
Rows = Sequence[Mapping[str, Any]]
Verdict = Literal["agrees", "partly", "does not agree", "undecided"]


@dataclass(frozen=True)
class Finding:
    """The outcome of an item: the paper's claim, the measurement, and errata met on the way.

    clauses: the parts of the claim. Each is True if it holds, False if it does not, None if it was not measured or the
        intervals do not decide.
    data: tables by name, written as CSV. figures: matplotlib figures by name, written as PNG and PDF.
    published, here: the item in one number or a few words, as published and as measured, for a list.
    fault: if they disagree, whether implementation, scale or claim is at fault, and the evidence.
    """

    claim: str
    measured: str
    clauses: Mapping[str, bool | None]
    errata: str = ""
    data: Mapping[str, Rows] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    published: str = ""
    here: str = ""
    fault: str = ""

    @property
    def verdict(self) -> Verdict:
        """All clauses hold, some do, or none does; undecided if all measured clauses hold and some are unmeasured."""
        measured = [holds for holds in self.clauses.values() if holds is not None]
        if not all(measured):
            return "partly" if any(measured) else "does not agree"
        return "agrees" if measured and len(measured) == len(self.clauses) else "undecided"


def find(name: str) -> Callable[[Any], Finding]:
    """The function of an item. The function of an item that trains takes its contests by name (``Held``). Any other
    takes ``quick``: True for a small version of the same computation."""
    check(name)
    module, _, function = ITEMS[name].code.partition(":")
    item: Callable[[Any], Finding] = getattr(
        importlib.import_module(f"hypersphere.studies.reproduce.{module}"), function
    )
    return item


def reproduce(
    name: str,
    out: Path,
    quick: bool = False,
    *,
    scale: Scale | None = None,
    work: Path = Path("studies"),
    jobs: int | None = None,
    echo: Callable[[str], None] = print,
) -> tuple[Finding, Path]:
    """Runs one item and writes its text, data and figures into ``out/paper/item``; returns the finding and the folder.

    The quick version has the folder ``out/paper/item-quick``, so that it never replaces a full result; the full scale
    of an item that trains has ``out/paper/item-full``. ``work`` holds the folders of its runs.
    """
    contests = ITEMS[name].contests
    if contests:
        wanted: Scale = "tiny" if quick else scale or default_scale()
        held = {each: hold(each, wanted, out=out, work=work, jobs=jobs, echo=echo) for each in contests}
        return write(name, find(name)(held), out, quick, held)
    start = time.monotonic()
    finding = find(name)(quick)
    return write(
        name, finding, out, quick, about={**provenance(), "minutes": round((time.monotonic() - start) / 60, 1)}
    )


def default_scale() -> Scale:
    """The published scale on a machine with a GPU, else the small one."""
    import torch

    return "full" if torch.cuda.is_available() else "small"


def write(
    name: str,
    finding: Finding,
    out: Path,
    quick: bool = False,
    held: Mapping[str, Held] | None = None,
    about: Mapping[str, Any] | None = None,
) -> tuple[Finding, Path]:
    """Writes a finding and lists it in ``out/README.md``; ``about``: the machine and duration of an item without
    contests."""
    from hypersphere.studies.reproduce.index import write_index

    scale = next((each.scale for each in (held or {}).values()), None)
    folder = out / (f"{name}-quick" if quick else f"{name}-full" if scale == "full" else name)
    folder.mkdir(parents=True, exist_ok=True)
    tree = as_tree(name, finding, quick, held, about)
    for table, rows in {**finding.data, **tree["tables"]}.items():
        atomic_write(folder / f"{table}.csv", as_csv(rows))
    for figure, drawn in finding.figures.items():
        _sign(drawn, name, quick)
        for kind in ("png", "pdf"):
            atomic_write(folder / f"{figure}.{kind}", _drawn(drawn, kind, cite(name)))
    atomic_write(folder / "finding.md", page(name, finding, quick, held, about))
    atomic_write(folder / "results.json", json.dumps(tree, indent=1, ensure_ascii=False) + "\n")
    if not quick:
        write_index(out)
    return finding, folder


def as_tree(
    name: str,
    finding: Finding,
    quick: bool = False,
    held: Mapping[str, Held] | None = None,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A finding as a JSON tree: numbers of any kind as floats, NaN as null."""
    item = ITEMS[name]
    tables = {table: [dict(row) for row in rows] for table, rows in finding.data.items() if len(rows) <= MOST_ROWS}
    tree = {
        "name": name, "title": item.title, "paper": PAPERS[paper_of(name)].short, "place": item.place,
        "verdict": finding.verdict, "published": finding.published, "here": finding.here, "claim": finding.claim,
        "measured": finding.measured, "clauses": dict(finding.clauses), "fault": finding.fault,
        "errata": finding.errata, "command": command(name, quick, held),
        "contests": {each: {"scale": one.scale, "smaller": one.contest.smaller, **one.about}
                     for each, one in (held or {}).items()},
        "about": dict(about or {}), "tables": tables,
    }  # fmt: skip
    json_tree: dict[str, Any] = json_safe(json.loads(json.dumps(tree, default=float)))
    return json_tree


def command(name: str, quick: bool = False, held: Mapping[str, Held] | None = None) -> str:
    """The command that computes an item again."""
    scale = next((each.scale for each in (held or {}).values()), None)
    words = " --quick" if quick else "" if scale is None else f" --scale {scale}"
    return f"hypersphere reproduce {name}{words}"


def page(
    name: str,
    finding: Finding,
    quick: bool = False,
    held: Mapping[str, Held] | None = None,
    about: Mapping[str, Any] | None = None,
) -> str:
    """The page: the paper's claim, the measurement, the parts of the claim that hold; then pictures and data."""
    lines = [f"# {ITEMS[name].title} ({name})", "", f"{cite(name)}.", "", f"**The paper:** {finding.claim}", ""]
    lines += [f"**Here:** {finding.measured}", "", f"**Verdict:** {finding.verdict}.", ""]
    undecided = "undecided" if held else "not measured"
    words = {True: "holds", False: "does not hold", None: undecided}
    lines += [f"- {words[holds]}: {clause}" for clause, holds in finding.clauses.items()]
    if finding.fault:
        lines += ["", f"**Why it does not agree:** {finding.fault}"]
    lines += ["", f"**Errata met:** {finding.errata or 'none.'}"]
    if re.search(r"\bE\d", finding.errata):
        lines += ["", "The errata by number: docs/errata.md."]
    if quick:
        lines += ["", "This was the quick version: the same computation on fewer points."]
    lines += ["", *(f"![{figure}]({figure}.png)" for figure in finding.figures)]
    for each in (held or {}).values():
        lines += ["", f"**The contest {each.contest.name}:** {each.contest.title}. {_ran(each)}"]
        if each.scale != "full":
            lines += ["", f"Made smaller: {each.contest.smaller}"]
    lines += ["", f"Computed with: `{command(name, quick, held)}`" + (f", {_where(about)}." if about else "")]
    lines += ["", *(_data_line(table, rows) for table, rows in finding.data.items())]
    return "\n".join(lines) + "\n"


def _data_line(table: str, rows: Rows) -> str:
    if len(rows) > MOST_ROWS:
        return f"Data: `{table}.csv`, {len(rows):,} rows: beside this page where it is computed, not in the repository"
    return f"Data: [{table}.csv]({table}.csv)"


def _ran(held: Held) -> str:
    """The machine, duration and progress of a contest."""
    runs = [run for row in held.comparison.rows for run in (*row.tuning, *row.runs)]
    ended = sum(run.state in ("done", "failed") for run in runs)
    failed = sum(run.state == "failed" for run in runs)
    words = f"{ended} of {held.comparison.plan.count()} runs" + (f", {failed} of them failed" if failed else "")
    return f"{words}; {_where(held.about)}."


def _where(about: Mapping[str, Any]) -> str:
    return (
        f"{about.get('minutes', 0):g} minutes on {about.get('machine', 'an unknown machine')}, commit "
        f"{about.get('commit') or 'unknown'}, torch {about.get('torch', 'unknown')}"
    )


def as_csv(rows: Rows) -> str:
    page = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(page, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return page.getvalue()


def _sign(figure: Any, name: str, quick: bool) -> None:
    """Names paper and item below a figure."""
    width, height = figure.get_size_inches()
    words = f"{cite(name)}. Computed with: hypersphere reproduce {name}{' --quick' if quick else ''}"
    # The layout is frozen first: else a legend at the bottom moves with the edge of the page, onto the words.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, 1), figure.transFigure)
    figure.text(0.2 / width, -0.1 / height, words, size=7.5, color="#6b7885", va="top")


def _drawn(figure: Any, kind: str, title: str) -> bytes:
    page = io.BytesIO()
    figure.savefig(page, format=kind, dpi=160, bbox_inches="tight", metadata={"Title": title})
    return page.getvalue()
