"""The benchmark in a paragraph, for the README."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from hypersphere.studies.benchmark import quantities
from hypersphere.studies.benchmark.cases import LIMIT, OURS, PLAIN
from hypersphere.studies.benchmark.cells import MEASURED, Cell, Cells, ratio

KNOWN_BY_ALL = "infonce"  # the objective that is described by itself


def paragraph(cells: Cells, about: Mapping[str, Any]) -> list[str]:
    """Sentences on time, memory and peers, as far as cells tell: one paragraph, or none if nothing was measured."""
    size = _common_size(cells)
    if size is None:
        return []
    on = about["machine"]
    begin = (
        f"Forward and backward in {on['dtype']} on {on['threads']} thread{'s' * (on['threads'] > 1)} of "
        f"{on['processor']}, D = {about['dim']}, every objective with its defaults."
    )
    found = [begin, *_against(cells, size), *_peers(cells, size), *_largest(cells)]
    return [textwrap.fill(" ".join(found), width=120, break_on_hyphens=False)]


def _common_size(cells: Cells) -> int | None:
    """The largest size at which at least half of the objectives have been measured in their plain form as well."""
    with_plain = [name for name in cells.objectives() if cells.of(name, PLAIN)]
    for size in reversed(cells.sizes()):
        measured = [name for name in with_plain if cells.get(name, PLAIN, size).rounds]
        if measured and 2 * len(measured) >= len(with_plain):
            return size
    return None


def _against(cells: Cells, size: int) -> list[str]:
    """Ours beside the limit and beside the plain form, over all objectives."""
    sentences, parts = [], []
    wholes = {LIMIT: "the bare matrix products of a straight evaluation", PLAIN: "the plain PyTorch form"}
    for by, whole in wholes.items():
        pairs = {name: (cells.get(name, OURS, size), cells.get(name, by, size)) for name in cells.objectives()}
        times = {name: found for name, pair in pairs.items() if (found := ratio(*pair)) is not None}
        if times:
            parts.append(f"{_span(times)} of the time of {whole}")
    if parts:
        sentences.append(f"At N = {size:,} an objective takes {', and '.join(parts)}.")
    memory = {}
    for name in cells.objectives():
        ours, plain = cells.get(name, OURS, size), cells.get(name, PLAIN, size)
        if ours.bytes and plain.bytes:
            memory[name] = ours.bytes / plain.bytes
    if memory:
        sentences.append(f"Its memory above the inputs is {_span(memory)} of the plain form's.")
    return sentences


def _span(ratios: Mapping[str, float]) -> str:
    """From the smallest to the largest, and the median."""
    low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    if len(ratios) == 1:
        return quantities.ratio(ratios[low])
    middle = quantities.ratio(median(ratios.values()))
    return f"{quantities.ratio(ratios[low])} ({low}) to {quantities.ratio(ratios[high])} ({high}), median {middle},"


def _peers(cells: Cells, size: int) -> list[str]:
    """For each peer the spread over the objectives it shares, each at the largest size it manages up to ``size``."""
    found = []
    for peer in sorted({c.by for c in cells.all()} - {OURS, LIMIT, PLAIN}):
        times = {}
        for name in cells.objectives():
            measured = [c for c in cells.of(name, peer) if c.rounds and c.size <= size]
            pair = (cells.get(name, OURS, measured[-1].size), measured[-1]) if measured else None
            if pair and (shared := ratio(*pair)) is not None:
                times[f"{name} at {measured[-1].size:,}"] = shared
        if times:
            found.append(f"{peer}: {_listed(times)}")
    return [f"Time beside the libraries that compute the same: {'; '.join(found)}."] if found else []


def _listed(ratios: Mapping[str, float]) -> str:
    return ", ".join(f"{quantities.ratio(value)} ({name})" for name, value in ratios.items())


def _largest(cells: Cells) -> list[str]:
    """The largest size: how many objectives are measured, and one of them beside its plain form."""
    size = cells.sizes()[-1]
    ours = [cells.get(name, OURS, size) for name in cells.objectives()]
    done = [cell for cell in ours if cell.rounds]
    if not done:
        return []
    sentences = [f"At N = {size:,}, {len(done)} of {len(ours)} objectives were measured: {_costs(done)}."]
    one, plain = (cells.get(KNOWN_BY_ALL, by, size) for by in (OURS, PLAIN))
    if one.rounds and one.bytes:
        words = f"{KNOWN_BY_ALL} there takes {quantities.seconds(one.seconds)} and {quantities.size(one.bytes)}"
        if plain.status != MEASURED and plain.expected_bytes:
            words += f", where the plain form would need about {quantities.size(plain.expected_bytes)} and is not run"
        sentences.append(f"{words}.")
    return sentences


def _costs(done: Sequence[Cell]) -> str:
    seconds = [cell.seconds for cell in done if cell.seconds is not None]
    memory = [cell.bytes for cell in done if cell.bytes is not None]
    words = f"{quantities.seconds(min(seconds))} to {quantities.seconds(max(seconds))}"
    return f"{words}, {quantities.size(min(memory))} to {quantities.size(max(memory))}" if memory else words
