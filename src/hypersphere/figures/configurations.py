"""End points of minimisation, dependence of a loss on the batch, and its curvature where all points lie on one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _SOFT, _LINE = "#22303c", "#6b7885", "#dde3e8"
_LOOKS = (
    ("#1f6fb2", "o"),
    ("#c8501e", "s"),
    ("#2f7d4f", "^"),
    ("#8e4fa8", "D"),
    ("#b8860b", "v"),
    ("#c2477f", "P"),
    ("#4a4a4a", "X"),
    ("#2aa5a0", "<"),
    ("#7a5230", ">"),
    ("#5b6ee1", "h"),
    ("#9a9a2e", "*"),
    ("#a33b3b", "p"),
)
_FLOOR = 1e-15  # smaller differences of float64 losses are drawn here


@dataclass(frozen=True)
class Reach:
    """How far one minimisation ended from the known optimum: (loss - known) / max(1, |known|)."""

    objective: str
    case: str
    views: str  # "aligned" or "two free"
    gap: float


@dataclass(frozen=True)
class BatchCurve:
    """One loss: (batch size, mean minus whole, the same without log(M-1), standard error)."""

    label: str
    sampled: bool
    points: Sequence[tuple[int, float, float, float]]


@dataclass(frozen=True)
class Cell:
    """One objective at one configuration: its kind (a key of the legend) and a short text."""

    kind: str
    text: str


def draw_reach(few: Sequence[Reach], many: Sequence[tuple[str, int, float]]) -> Figure:
    """Left: distance from the known optimum, aligned and with two free views. Right: from the uniform measure."""
    labels = list(dict.fromkeys(each.objective for each in few))
    cases = list(dict.fromkeys(each.case for each in few))
    figure = _figure(11.0, 5.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.75, 1.0))
    for place, label in enumerate(labels):
        colour, marker = _LOOKS[place % len(_LOOKS)]
        shift = (place - (len(labels) - 1) / 2) * 0.066
        for views, face in (("aligned", colour), ("two free", "white")):
            own = [each for each in few if each.objective == label and each.views == views]
            x = [cases.index(each.case) + shift for each in own]
            y = [max(abs(each.gap), _FLOOR) for each in own]
            left.plot(x, y, marker, color=colour, markerfacecolor=face, markersize=5.5, label=_first(label, views))
        sizes = [(N, abs(gap)) for name, N, gap in many if name == label]
        right.plot(*zip(*sizes, strict=True), marker=marker, color=colour, markersize=4.5, linewidth=1.1)
    left.set_yscale("log")
    left.axhline(1e-6, color=_SOFT, linewidth=0.9, linestyle="--")
    left.text(-0.45, 1.5e-6, "counts as reached below", size=8, color=_SOFT)
    left.set_xticks(range(len(cases)), cases)
    left.set_ylabel("|loss − known optimum| ÷ max(1, |known optimum|)")
    left.set_title("A batch: filled, aligned points; open, two free views", size=10.5, color=_INK, loc="left")
    right.set_xscale("log", base=2)
    right.set_yscale("log")
    counts = sorted({N for _, N, _ in many})
    right.set_xticks(counts, [str(N) for N in counts])
    right.minorticks_off()
    reference = [0.05 / N for N in counts]  # below the curves, for the eye
    right.plot(counts, reference, color=_SOFT, linestyle="--", linewidth=1)
    right.text(counts[-1], reference[-1] * 0.7, "∝ 1/N", color=_SOFT, size=8.5, ha="right", va="top")
    right.set_xlabel("points N on S²")
    right.set_ylabel("|loss − its log N − uniform measure|  (KCL: ÷ γ)")
    right.set_title("Many points: the uniform measure", size=10.5, color=_INK, loc="left")
    _plain(left, right)
    _legend(figure, left, 6)
    return figure


def _first(label: str, views: str) -> str:
    return label if views == "aligned" else "_"


def draw_batch_curves(curves: Sequence[BatchCurve], sizes: tuple[int, int]) -> Figure:
    """Rows: the loss with and without log(M-1). Columns: every batch of a small set, some batches of a larger one."""
    figure = _figure(10.5, 7.0)
    axes = figure.subplots(2, 2, sharex="col")
    labels = list(dict.fromkeys(curve.label for curve in curves))
    for curve in curves:
        colour, marker = _LOOKS[labels.index(curve.label) % len(_LOOKS)]
        x, raw, corrected, error = zip(*curve.points, strict=True)
        kernel = curve.label.startswith("KCL")
        style: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "markersize": 4.5,
            "linewidth": 1.2,
            "linestyle": "--" if kernel else "-",
            "capsize": 2,
            "label": curve.label,
        }
        nudged = [size * 1.012 ** (labels.index(curve.label) - len(labels) / 2) for size in x] if curve.sampled else x
        for row, y in enumerate((raw, corrected)):
            axes[row, int(curve.sampled)].errorbar(nudged, y, yerr=error if curve.sampled else None, **style)
    for column, (kind, count) in enumerate(zip(("every batch of", "sampled from"), sizes, strict=True)):
        title = f"{kind} {count} embeddings" + (" (± 1 standard error)" if column else ", exact")
        axes[0, column].set_title(title, size=10.5, color=_INK, loc="left")
        axes[1, column].set_xlabel("batch size M")
        for axis in axes[:, column]:
            axis.axhline(0, color=_INK, linewidth=0.8, zorder=1)
    small = sorted({size for curve in curves if not curve.sampled for size, *_ in curve.points})
    for axis in axes[:, 0]:
        axis.set_xticks(small)
    ticks = sorted({size for curve in curves if curve.sampled for size, *_ in curve.points})
    for axis in axes[:, 1]:
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [str(size) for size in ticks])
    axes[0, 0].set_ylabel("mean over batches − whole set")
    axes[1, 0].set_ylabel("the same, without log(M−1)")
    _plain(*axes.flat)
    _legend(figure, axes[0, 0], 5)
    return figure


def draw_cells(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], Cell],
    kinds: Mapping[str, str],
) -> Figure:
    """A table of coloured cells with a legend; ``kinds`` maps a kind to its colour, the darkest first."""
    from matplotlib.patches import Patch, Rectangle

    figure = _figure(2.0 + 1.55 * len(columns), 1.5 + 0.245 * len(rows))
    axis = figure.add_subplot()
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            cell = cells.get((row, column))
            if cell is None:
                continue
            face = kinds[cell.kind]
            axis.add_patch(Rectangle((x, y), 1, 1, facecolor=face, edgecolor="white", linewidth=1.2))
            ink = "white" if _dark(face) else _INK
            axis.text(x + 0.5, y + 0.53, cell.text, size=7.6, color=ink, ha="center", va="center")
    axis.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axis.set_xticks([x + 0.5 for x in range(len(columns))], columns, size=8.5, color=_INK)
    axis.set_yticks([y + 0.5 for y in range(len(rows))], rows, size=8.5, color=_INK)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    used = {cell.kind for cell in cells.values()}
    handles = [Patch(facecolor=colour, label=kind) for kind, colour in kinds.items() if kind in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5, labelcolor=_INK)
    figure.suptitle(title, size=12.5, weight="bold", color=_INK)
    return figure


@dataclass(frozen=True)
class Method:
    """A row of the taxonomy: its three choices, the published accuracy, and the objective that represents it here."""

    name: str
    group: str
    choices: tuple[str, str, str]
    top1: float | None
    here: str
    in_question: bool = False


def draw_taxonomy(methods: Sequence[Method]) -> Figure:
    """The methods with their affinity, probability and divergence as text, their published top-1 as points."""
    figure = _figure(12.0, 0.9 + 0.34 * len(methods))
    words, axis = figure.subplots(1, 2, width_ratios=(3.2, 1), sharey=True)
    places = (0.0, 0.13, 0.34, 0.52, 0.82)
    for x, heading in zip(places, ("method", "affinity", "probability", "divergence", "here"), strict=True):
        words.text(x, -0.9, heading, size=9.5, weight="bold", color=_INK, va="center")
    group = methods[0].group
    for y, method in enumerate(methods):
        for x, text in zip(places, (method.name, *method.choices, method.here), strict=True):
            words.text(x, y, text, size=8.8, color=_INK if x != places[-1] else "#1f6fb2", va="center")
        if method.group != group:
            group = method.group
            for each in (words, axis):
                each.axhline(y - 0.5, color=_LINE, linewidth=1)
        if method.top1 is None:
            axis.text(57.2, y, "no number given", size=8, color=_SOFT, va="center")
        else:
            face = "white" if method.in_question else "#1f6fb2"
            axis.plot(method.top1, y, "o", color="#1f6fb2", markerfacecolor=face, markersize=7)
            note = f"{method.top1:.1f}" + ("  source in question" if method.in_question else "")
            right = method.top1 > 66 and not method.in_question
            shift = -0.8 if right else 0.8
            axis.text(method.top1 + shift, y, note, size=8.5, color=_INK, va="center", ha="right" if right else "left")
    words.set(xlim=(0, 1), ylim=(len(methods) - 0.5, -1.4))
    words.set_axis_off()
    axis.set_xlim(57, 81)
    axis.set_yticks([])
    axis.set_xlabel("published ImageNet-1k top-1, % (ResNet-50)")
    _plain(axis)
    return figure


def draw_placement(groups: Sequence[tuple[str, Sequence[tuple[str, ...]]]]) -> Figure:
    """Rows of words under their group's name: name, affinity, probability, divergence, nearest published row."""
    lines = sum(len(rows) + 1 for _, rows in groups)
    figure = _figure(10.5, 0.6 + 0.235 * lines)
    axis = figure.add_subplot()
    places = (0.015, 0.13, 0.40, 0.655, 0.90)
    for x, heading in zip(places, ("objective", "affinity", "probability", "divergence", "published"), strict=True):
        axis.text(x, -1.0, heading, size=9.5, weight="bold", color=_INK, va="center")
    y = 0
    for name, rows in groups:
        axis.axhline(y - 0.45, color=_LINE, linewidth=1)
        axis.text(0, y, name, size=9, style="italic", color=_SOFT, va="center")
        for place, row in enumerate(rows, start=1):
            for x, text in zip(places, row, strict=True):
                axis.text(x, y + place, text, size=8.8, color="#1f6fb2" if x == places[0] else _INK, va="center")
        y += len(rows) + 1
    axis.set(xlim=(0, 1), ylim=(lines - 0.5, -1.5))
    axis.set_axis_off()
    return figure


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _legend(figure: Figure, axis: Axes, columns: int) -> None:
    handles, labels = axis.get_legend_handles_labels()
    shown = {label: handle for handle, label in zip(handles, labels, strict=True)}
    look: dict[str, Any] = {"frameon": False, "fontsize": 9, "labelcolor": _INK, "columnspacing": 1.3}
    figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=columns, **look)


def _plain(*axes: Axes) -> None:
    for axis in axes:
        axis.grid(color=_LINE, linewidth=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(length=0, labelsize=8.5, colors=_SOFT)
        axis.xaxis.label.set(size=9.5, color=_INK)
        axis.yaxis.label.set(size=9.5, color=_INK)
        for side, spine in axis.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(_LINE)


def _dark(colour: str) -> bool:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return 0.3 * red + 0.59 * green + 0.11 * blue < 140
