"""The benchmark at a glance: a small table, two sentences and a chart of a few objectives.

    python -m hypersphere.studies.benchmark.overview benchmarks/results/objectives README.md

draws ``overview.png`` from the folder's ``benchmark.json`` and puts the table between the marks of the given files.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from hypersphere.documents import read_json
from hypersphere.figures import Curve, GrowthPanel, draw_growth
from hypersphere.objectives.table import between
from hypersphere.report import atomic_write
from hypersphere.studies.benchmark.cases import LIMIT, OURS, PLAIN
from hypersphere.studies.benchmark.cells import MEASURED
from hypersphere.studies.benchmark.measures import format_bytes, format_ratio, format_seconds

BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"
SHOWN = ("infonce", "ntxent", "dhel", "met", "supcon", "vicreg", "barlow")  # one of each kind; the last is our slowest
DRAWN = ("infonce", "ntxent", "met", "barlow")
KNOWN_BY_ALL = "infonce"  # the objective that is described at the largest size
HEADER = ("objective", "N", "hypersphere", "matmuls alone", "plain PyTorch", "other libraries", "memory", "plain's")

Row = Mapping[str, Any]  # a cell in the form of Summary.rows() and benchmark.json


def overview(rows: Sequence[Row], about: Mapping[str, Any]) -> list[str]:
    """Paragraphs of Markdown between two marks; empty if no plain form was measured beside ours."""
    lines = [line for name in SHOWN if (line := _line(rows, name)) is not None]
    if not lines:
        return []
    on = about["machine"]
    threads = f"{on['threads']} thread{'s' * (on['threads'] > 1)}"
    begin = f"One forward and backward, {on['dtype']}, D = {about['dim']}, {threads} of {on['processor']}:"
    table = ["| " + " | ".join(cells) + " |" for cells in (HEADER, ["---", *["---:"] * 7], *lines)]
    return ["\n".join([BEGIN, begin, "", *table, "", *_sentences(rows), END])]


def chart(rows: Sequence[Row], about: Mapping[str, Any]) -> bytes:
    """A PNG: time and memory of a few objectives against the batch size; empty if none of them was measured."""
    panels = [
        GrowthPanel(name, _curves(rows, name, "seconds"), [], _curves(rows, name, "bytes"))
        for name in DRAWN
        if any(row["objective"] == name for row in rows)
    ]
    if not panels:
        return b""
    on = about["machine"]
    note = f"hypersphere benchmark: D = {about['dim']}, {on['dtype']}, {on['threads']} threads of {on['processor']}"
    return draw_growth("Time and memory against the batch size", panels, OURS, note, columns=len(panels))


def _line(rows: Sequence[Row], name: str) -> list[str] | None:
    """An objective at the largest size at which the plain form was measured as well."""
    own = [row for row in rows if row["objective"] == name and row["status"] == MEASURED]
    size = max((row["size"] for row in own if row["by"] == PLAIN), default=None)
    here = {row["by"]: row for row in own if row["size"] == size}
    if OURS not in here:
        return None
    seconds = {by: format_seconds(row["seconds"]) for by, row in here.items()}
    peers = [f"{by} {seconds[by]}" for by in sorted(seconds) if by not in (OURS, LIMIT, PLAIN)]
    memory = [format_bytes(here[by]["bytes"]) for by in (OURS, PLAIN)]
    return [f"`{name}`", f"{size:,}", seconds[OURS], seconds.get(LIMIT, ""), seconds[PLAIN], ", ".join(peers), *memory]


def _sentences(rows: Sequence[Row]) -> list[str]:
    """All objectives at the largest size that half of their plain forms reach; then the largest size of all."""
    plain = [row for row in rows if row["by"] == PLAIN]
    names = {row["objective"] for row in plain}
    sizes = sorted({row["size"] for row in plain}, reverse=True)
    measured = {size: [row for row in plain if row["size"] == size and row["ours_to_this_seconds"]] for size in sizes}
    size = next((size for size in sizes if 2 * len(measured[size]) >= len(names)), None)
    sentences = []
    if size is not None:
        times = {row["objective"]: row["ours_to_this_seconds"] for row in measured[size]}
        memory = [row["ours_to_this_bytes"] for row in measured[size] if row["ours_to_this_bytes"]]
        slower = [f"{name} ({format_ratio(value)})" for name, value in sorted(times.items()) if value > 1]
        words = f"Median of {len(times)} objectives at N = {size:,}: {format_ratio(median(times.values()))}"
        words += f" of the plain form's time and {format_ratio(median(memory))} of its memory" if memory else ""
        sentences += [f"{words}.", f"Slower than plain there: {', '.join(slower) or 'none'}."]
    return sentences + _largest(rows)


def _largest(rows: Sequence[Row]) -> list[str]:
    """One objective at the largest size, beside the estimated cost of its plain form."""
    size = max(row["size"] for row in rows)
    here = {row["by"]: row for row in rows if row["objective"] == KNOWN_BY_ALL and row["size"] == size}
    ours, plain = here.get(OURS), here.get(PLAIN)
    if ours is None or ours["status"] != MEASURED or not ours["bytes"]:
        return []
    words = f"At N = {size:,} `{KNOWN_BY_ALL}` takes {format_seconds(ours['seconds'])} and "
    words += format_bytes(ours["bytes"])
    if plain is not None and plain["status"] != MEASURED and plain["expected_bytes"]:
        words += f"; the plain form would need about {format_bytes(plain['expected_bytes'])}"
    return [f"{words}."]


def _curves(rows: Sequence[Row], name: str, key: str) -> list[Curve]:
    curves = []
    for by in dict.fromkeys(row["by"] for row in rows if row["objective"] == name):
        own = [row for row in rows if row["objective"] == name and row["by"] == by]
        points = [(row["size"], row[key]) for row in own if row[key]]
        beyond = min((row["size"] for row in own if row["status"].startswith("over")), default=None)
        curves += [Curve(by, points, beyond)] if points else []
    return curves


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        print("give the folder of a benchmark, and files with the marks", file=sys.stderr)
        return 2
    folder, *files = map(Path, arguments)
    try:
        about = read_json(folder / "benchmark.json", dict)
        (text,) = overview(about["cells"], about)
        body = text.removeprefix(f"{BEGIN}\n").removesuffix(f"\n{END}")
        fresh = {path: between(path.read_text(encoding="utf-8"), BEGIN, END, body) for path in files}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"{folder}: {error}", file=sys.stderr)
        return 2
    for path, words in fresh.items():
        atomic_write(path, words)
    atomic_write(folder / "overview.png", chart(about["cells"], about))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
