"""Tables as text."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that is readable both rendered and as text: first column to the left, the others to the right.

    >>> print(markdown_table(["objective", "ratio"], [["met", "1.1"]]))
    | objective | ratio |
    |:----------|------:|
    | met       |   1.1 |
    """
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"a row has {len(row)} cells but the header has {len(header)}: {row}")
    widths = [max(len(row[place]) for row in [header, *rows]) for place in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [c.rjust(w) if place else c.ljust(w) for place, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return f"| {' | '.join(padded)} |"

    rule = [":" + "-" * (w + 1) if place == 0 else "-" * (w + 1) + ":" for place, w in enumerate(widths)]
    return "\n".join([line(header), f"|{'|'.join(rule)}|", *(line(row) for row in rows)])
