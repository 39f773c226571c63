"""A page in one file: style and pictures inside it, nothing fetched from anywhere, fit for a screen and for paper."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hypersphere.messages import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: only light; --ink: #22303c; --soft: #5c6873; --line: #dde3e8; --good: #2c7a4b; --warn: #a86500;
        --bad: #b3261e; }
html { font-size: 16px; } * { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 3rem; max-width: 68rem; color: var(--ink); background: #fff;
       font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .4rem 0; max-width: 48rem; }
.soft, footer { color: var(--soft); font-size: .9rem; }
.box { border-left: 4px solid var(--line); padding: .2rem 0 .2rem 1rem; margin: 1rem 0; break-inside: avoid; }
.box h3 { font-size: 1rem; margin: 0; }
.good { border-color: var(--good); } .good h3 { color: var(--good); }
.warn { border-color: var(--warn); } .warn h3 { color: var(--warn); }
.bad { border-color: var(--bad); } .bad h3 { color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .28rem .9rem .28rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td:last-child { color: var(--soft); }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.5rem 2rem; }
figure { margin: 0; min-width: 0; break-inside: avoid; }
.drawing { overflow-x: auto; }
figure svg { width: 100%; min-width: var(--least); height: auto; display: block; }
figcaption { font-size: .9rem; color: var(--soft); }
figcaption b { color: var(--ink); }
@media print { html { font-size: 10.5px; } body { padding: 0; max-width: none; }
               .wide, .drawing { overflow: visible; } figure svg { min-width: 0; }
               .pictures { grid-template-columns: 1fr 1fr; gap: 1rem; }
               h2 { break-after: avoid; } tr { break-inside: avoid; } }
"""
READABLE = 4.5  # rem on the screen for an inch of a figure, at least: letters of 8 points are then 8 pixels high


class Box(NamedTuple):
    """A remark that stands out; kind "good", "warn" or "bad"."""

    kind: str
    title: str
    paragraphs: Sequence[str]

    def html(self) -> str:
        body = "".join(f"<p>{escape(words)}</p>" for words in self.paragraphs)
        return f'<div class="box {self.kind}"><h3>{escape(self.title)}</h3>{body}</div>'


def page(title: str, about: str, parts: Iterable[str], footer: str = "") -> str:
    """A whole document; ``parts`` are pieces of HTML made by the functions below."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="soft">{escape(about)}</p>\n'
        + "\n".join(parts)
        + f"\n<footer><p>{escape(footer)}</p></footer>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>\n" + "\n".join(parts) + "</section>"


def paragraph(words: str, soft: bool = False) -> str:
    mark = ' class="soft"' if soft else ""
    return f"<p{mark}>{escape(words)}</p>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table whose columns ``numbers`` are set to the right."""

    def line(cells: Sequence[str], kind: str) -> str:
        marks = (' class="number"' if place in numbers else "" for place in range(len(cells)))
        return "".join(f"<{kind}{mark}>{escape(cell)}</{kind}>" for mark, cell in zip(marks, cells, strict=True))

    body = "\n".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    head = f"<thead><tr>{line(header, 'th')}</tr></thead>" if any(header) else ""
    return f'<div class="wide"><table>{head}\n<tbody>{body}</tbody></table></div>'


def pictures(figures: Iterable[tuple[Figure, str, str]]) -> str:
    """Figures side by side where there is room: (figure, title, caption); a wide figure scrolls on a small screen."""
    drawn = (
        f'<figure><div class="drawing" style="--least: {READABLE * figure.get_figwidth():.0f}rem">'
        f"{_svg(figure, title, place)}</div>"
        f"<figcaption><b>{escape(title)}.</b> {escape(words)}</figcaption></figure>"
        for place, (figure, title, words) in enumerate(figures)
    )
    return f'<div class="pictures">{"".join(drawn)}</div>'


def escape(words: str) -> str:
    return html.escape(printable(words), quote=True)


def _svg(figure: Figure, title: str, place: int) -> str:
    """The figure as SVG with unique identifiers, since one page holds several figures.

    The background is transparent: a browser that darkens pages turns letters white, but not the background behind them.
    """
    import matplotlib

    drawing = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": f"hypersphere-{place}", "svg.fonttype": "path"}):
        nobody = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(drawing, format="svg", transparent=True, metadata=nobody)
    text = drawing.getvalue()
    text = text[text.index("<svg") :]
    mark = f"f{place}-"
    text = re.sub(r'\bid="', f'id="{mark}', text)
    text = re.sub(r'href="#', f'href="#{mark}', text)
    text = re.sub(r"url\(#", f"url(#{mark}", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)
