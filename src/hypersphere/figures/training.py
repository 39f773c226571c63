"""Figure of a training run: all measurements of its monitor against the step, with its verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypersphere.figures.anatomy import ALIGNMENT, INK, NEUTRAL, SOFT, UNIFORMITY, frame, heading, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = dict[str, Any]
TROUBLE = "#b3261e"
LINES: dict[str, Any] = {"training": "-", "held_out": (0, (4, 1.6)), "validation": (0, (1, 1.2))}
WORDS = {"training": "a training batch solid", "held_out": "held-out data dashed", "validation": "validation dotted"}


@dataclass(frozen=True)
class Curve:
    """A number of the records; ``spread`` is the half width of a band, ``band`` its lower and upper end."""

    name: str
    label: str
    colour: str
    spread: str = ""
    band: tuple[str, str] | None = None


@dataclass(frozen=True)
class CurvePanel:
    title: str
    curves: tuple[Curve, ...]
    limits: tuple[float, float] | None = None
    logarithmic: bool = False


SCORES = {"stsb_dev": "STS-B dev, ρ × 100", "knn": "kNN accuracy, %"}  # scores in words
PANELS = (
    CurvePanel("Score on validation data", (Curve("score", "score", ALIGNMENT),)),
    CurvePanel("Objective", (Curve("objective", "as trained", ALIGNMENT),)),
    CurvePanel("InfoNCE, τ = 0.05", (Curve("infonce", "InfoNCE", ALIGNMENT),)),
    CurvePanel(
        "Alignment and uniformity",
        (Curve("alignment", "alignment", ALIGNMENT), Curve("uniformity", "uniformity", UNIFORMITY)),
    ),
    CurvePanel(
        "Cosines, mean ± standard deviation",
        (
            Curve("positive_cosine", "positives", ALIGNMENT, spread="positive_spread"),
            Curve("negative_cosine", "negatives", UNIFORMITY, spread="negative_spread"),
        ),
    ),
    CurvePanel(
        "Angles, radians, mean ± std. deviation",
        (
            Curve("positive_angle", "positives", ALIGNMENT, spread="positive_angle_spread"),
            Curve("negative_angle", "negatives", UNIFORMITY, spread="negative_angle_spread"),
        ),
    ),
    CurvePanel(
        "Gap, 10 to 90 % of the anchors",
        (
            Curve("gap", "$d_{ij}$, to their mean, in distance", ALIGNMENT, band=("gap_10", "gap_90")),
            Curve("hardest_gap", "to the hardest, in cosine", UNIFORMITY, band=("hardest_gap_10", "hardest_gap_90")),
        ),
    ),
    CurvePanel(
        "Anatomy of the gradient",
        (
            Curve("with_gradient", "anchors with gradient", ALIGNMENT),
            Curve("hardest_weight", "weight of the hardest", UNIFORMITY),
            Curve("lemma1", "meeting Lemma 1", NEUTRAL),
        ),
        limits=(-0.04, 1.04),
    ),
    CurvePanel("Ratio, median", (Curve("ratio", "ratio", ALIGNMENT),)),
    CurvePanel(
        "Dimensions in use",
        (
            Curve("effective_rank", "effective rank", ALIGNMENT),
            Curve("participation", "carrying the variance", UNIFORMITY),
        ),
    ),
    CurvePanel("Total variance", (Curve("total_variance", "total variance", ALIGNMENT),), limits=(-0.04, 1.04)),
    CurvePanel(
        "Lengths",
        (Curve("embedding_norm", "embeddings", ALIGNMENT), Curve("gradient_norm", "gradient", NEUTRAL)),
        logarithmic=True,
    ),
)


def draw_run(records: Sequence[Record], title: str = "A training run", columns: int = 4) -> Figure:
    """Panels from the lines of a metrics.jsonl: training solid, held-out dashed, validation dotted, verdicts marked
    where they begin. First comes the score that decides which weights are kept.

    A number that was never measured, or has no meaning for the objective, leaves its panel out, and so does InfoNCE
    where it is the objective itself.
    """
    if not records:
        raise ValueError("there is nothing to draw: the run has no measurement yet")
    from matplotlib.ticker import MaxNLocator

    panels = panels_with_data(records)
    events = verdict_events(records)
    lines = math.ceil(len(panels) / columns)
    width, height = 3.1 * columns + 0.3, 2.45 * lines + 1.0 + 0.2 * len(events)
    figure = new_figure(width, height)
    splits = [split for split in LINES if any(record["split"] == split for record in records)]
    last = max(record["step"] for record in records)
    times = len({record["step"] for record in records if record["split"] != "validation"})
    heading(figure, title, f"{last} steps, {times} measurements; {_key(splits)}.")
    grid = figure.add_gridspec(
        lines, columns, left=0.55 / width, right=1 - 0.25 / width, bottom=(0.5 + 0.2 * len(events)) / height,
        top=1 - 1.0 / height, hspace=0.42, wspace=0.24,
    )  # fmt: skip
    for place, panel in enumerate(panels):
        axis = figure.add_subplot(grid[place // columns, place % columns])
        _draw_panel(axis, panel, records, splits)
        for step, _ in events:
            axis.axvline(step, color=TROUBLE, linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=1)
        axis.set_xlim(0, max(last, 1))
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        if place + columns >= len(panels):
            axis.set_xlabel("step", size=8.5, color=INK)
    for place, (step, name) in enumerate(reversed(events)):
        words = f"step {step}: {name}"
        figure.text(0.2 / width, (0.1 + 0.2 * place) / height, words, size=8.5, color=TROUBLE)
    return figure


def save_run(
    records: Sequence[Record], folder: Path | str, name: str = "curves", title: str = "A training run"
) -> Path:
    """Writes the figure as ``name``.png and ``name``.pdf into a folder, each whole or not at all; returns the PNG."""
    figure = draw_run(records, title)
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    for kind, extra in (("pdf", {"CreationDate": None}), ("png", {"Software": None})):
        path = where / f"{name}.{kind}"
        fresh = path.with_name(f".{path.name}.new")
        figure.savefig(fresh, format=kind, dpi=150, metadata=extra)
        fresh.replace(path)
    return where / f"{name}.png"


def panels_with_data(records: Sequence[Record]) -> list[CurvePanel]:
    """The panels with data, each once; the panel of the score shows its name and best value."""
    panels = [
        panel for panel in PANELS if any(curve_points(records, curve, s) for curve in panel.curves for s in LINES)
    ]
    measured = [record for record in records if not math.isnan(_number(record, "objective"))]
    if measured and all(_number(r, "objective") == _number(r, "infonce") for r in measured):
        panels = [panel for panel in panels if panel.title != "Objective"]
    name = next((str(record["name"]) for record in records if "score" in record and "name" in record), "")
    scores = [(_number(record, "score"), -record["step"]) for record in records if "score" in record]
    best = max((pair for pair in scores if math.isfinite(pair[0])), default=(math.nan, 0))
    title = f"{SCORES.get(name, name)}: best {best[0]:.2f}, step {-best[1]}"
    return [replace(panel, title=title) if panel.curves[0].name == "score" else panel for panel in panels]


def _draw_panel(axis: Axes, panel: CurvePanel, records: Sequence[Record], splits: Sequence[str]) -> None:
    frame(axis)
    axis.set_title(panel.title, size=9.5, color=INK, loc="left", pad=5)
    if panel.logarithmic:
        _logarithmic(axis)
    banded = "held_out" if "held_out" in splits else "training"
    for curve in panel.curves:
        label: str | None = curve.label
        for split in splits:
            points = curve_points(records, curve, split)
            if not points:
                continue
            steps, middle, low, high = zip(*points, strict=True)
            axis.plot(
                steps, middle, color=curve.colour, linestyle=LINES[split], linewidth=1.5, label=label,
                marker="o" if len(points) == 1 or curve.name == "score" else None, markersize=3,
            )  # fmt: skip
            label = None
            if split == banded and (curve.spread or curve.band):
                axis.fill_between(steps, low, high, color=curve.colour, alpha=0.13, linewidth=0)
    if panel.logarithmic:
        _more_ticks(axis)
    if panel.limits:
        axis.set_ylim(*panel.limits)
    if len(panel.curves) > 1:
        axis.legend(frameon=False, fontsize=7, labelcolor=SOFT, handlelength=1.4, loc="best")


def _logarithmic(axis: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=8))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _more_ticks(axis: Axes) -> None:
    """More ticks where the axis spans less than a decade: 1, 2 and 5 may leave a single tick, which is no scale."""
    from matplotlib.ticker import MaxNLocator

    low, high = axis.get_ylim()
    if sum(low <= tick <= high for tick in axis.get_yticks()) < 2:
        axis.yaxis.set_major_locator(MaxNLocator(4))


def curve_points(records: Sequence[Record], curve: Curve, split: str) -> list[tuple[int, float, float, float]]:
    """Step, value, and both ends of the band, where the value is a number."""
    points = []
    for record in records:
        value = _number(record, curve.name)
        if record["split"] != split or not abs(value) < 1e300:
            continue
        low = high = value
        if curve.spread:
            low, high = value - _number(record, curve.spread), value + _number(record, curve.spread)
        elif curve.band:
            low, high = _number(record, curve.band[0]), _number(record, curve.band[1])
        points.append((record["step"], value, low, high))
    return points


def _number(record: Record, name: str) -> float:
    return float(record.get(name, math.nan))


def verdict_events(records: Sequence[Record]) -> list[tuple[int, str]]:
    """Steps at which a verdict begins. A score on validation data judges nothing, so it ends no verdict."""
    events: list[tuple[int, str]] = []
    before: list[str] = []
    for record in records:
        now = record.get("verdicts", before if record["split"] == "validation" else [])
        events += [(record["step"], name) for name in now if name not in before]
        before = now
    return events


def _key(splits: Sequence[str]) -> str:
    band = " (with the bands)" if "held_out" in splits and "training" in splits else ""
    return ", ".join(WORDS[split] + (band if split == "held_out" else "") for split in splits)
