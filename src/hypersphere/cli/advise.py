"""``hypersphere advise``: which temperature, margin or ratio suits the embeddings at hand, with the evidence."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hypersphere.anatomy.advice import CONE, Advice, list_advice, why_not
from hypersphere.anatomy.advice import advise as find
from hypersphere.anatomy.anatomy import STEP
from hypersphere.anatomy.evidence import APPROACHING, TEMPERATURES, Evidence, find_evidence
from hypersphere.cli.answers import console, fail, print_table
from hypersphere.cli.own import Imports, import_files, need_objective
from hypersphere.cli.views import Views, find_views
from hypersphere.objectives import list_objectives
from hypersphere.objectives.registry import objective_class

FEWEST = 16  # pairs; the gaps of fewer have no quantiles to speak of
MAIN = "infonce"  # the objective whose temperature is named first


def advise(
    source: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model with --text; a run; or a file with z1 and z2.")
    ],
    text: Annotated[
        Path | None,
        typer.Option("--text", metavar="FILE", help="A sentence a line, embedded twice with dropout; or pairs by tab."),
    ] = None,
    kind: Annotated[
        str, typer.Option("--views", metavar="KIND", help="dropout or pairs; by default, pairs if all lines have tabs.")
    ] = "",
    samples: Annotated[
        int | None, typer.Option("--samples", metavar="N", help="Lines to embed, drawn at random (256).")
    ] = None,
    objectives: Annotated[
        list[str] | None, typer.Option("--objective", metavar="NAME", help="Only these; may be given several times.")
    ] = None,
    quantile: Annotated[
        float, typer.Option("--quantile", metavar="Q", help="Share of the anchors that go on moving.")
    ] = 0.5,
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", min=2, help="Batch size you train with; it sets the negatives.")
    ] = 128,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="Of lines, batches, dropout.")
    ] = 0,
    imports: Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Which temperature, margin or ratio suits these embeddings.

    Every objective that has one gets a value, or the reason why there is none. The value puts the edge where an
    anchor's gradient ends at a quantile of the measured gap between its positive and its negatives: half of the anchors
    go on moving, half have stopped. A lower value stops more of them.

    A model on a text takes a minute: hypersphere advise MODEL --text lines.txt
    """
    import_files(imports)
    for name in objectives or []:
        need_objective(name)
    if not 0 <= quantile <= 1:
        fail(f"--quantile is between 0 and 1, not {quantile:g}.")
    if kind not in ("", "dropout", "pairs"):
        fail(f"--views is dropout or pairs, not {kind!r}.")
    if samples is not None and samples < FEWEST:
        fail(f"--samples is at least {FEWEST}, not {samples}.")
    for option, given in (("--views", kind), ("--samples", samples)):
        if given and text is None:
            fail(f"{option} is for a model on a text, which --text names.")
    views = find_views(source, text, seed, kind, samples)
    if len(views.z1) < FEWEST:
        fail(f"{text or source} has {len(views.z1)} pairs, and advice needs at least {FEWEST}.")
    advices: dict[str, Advice] = {}
    reasons: dict[str, str] = {}
    for name in dict.fromkeys(objectives or list_advice()):
        if reason := why_not(name):
            reasons[name] = reason
            continue
        try:
            advices[name] = find(name, views.z1, views.z2, quantile, batch_size=batch, seed=seed)
        except ValueError as error:
            reasons[name] = str(error).splitlines()[0]
    softmax = advices.get(MAIN)
    temperatures = sorted({*TEMPERATURES, *([float(f"{softmax.value:.2g}")] if softmax else [])})
    evidence = find_evidence(views.z1, views.z2, tuple(temperatures), batch_size=batch, seed=seed)
    if as_json:
        typer.echo(json.dumps(_as_json(advices, reasons, views, evidence), indent=1))
        return
    _print(advices, reasons, views, evidence, quantile)


def _as_json(advices: dict[str, Advice], reasons: dict[str, str], views: Views, evidence: Evidence) -> dict[str, Any]:
    return {
        "embeddings": views.about,
        "batch": evidence.negatives + 1,
        "headline": _headline(advices, evidence),
        "advice": [
            {
                "objective": each.objective,
                "parameter": each.parameter,
                "value": each.value,
                "default": each.default,
                "past the edge at the default": each.past_default,
                "quantile": each.quantile,
                "gap": dict(zip(("10%", "50%", "90%"), each.spread, strict=True)),
                "negatives": each.negatives,
            }
            for each in advices.values()
        ],
        "ratio": None if math.isnan(evidence.ratio) else evidence.ratio,
        "evidence": {
            "positive cosine": dict(zip(("mean", "std"), evidence.positive, strict=True)),
            "negative cosine": dict(zip(("mean", "std"), evidence.negative, strict=True)),
            "hardest negative cosine": evidence.hardest,
            "temperatures": [each._asdict() for each in evidence.weights],
        },
        "without": reasons,
        "caveat": next((each.caveat for each in advices.values()), None),
    }


def _headline(advices: dict[str, Advice], evidence: Evidence) -> str:
    """The advice in a sentence: of InfoNCE, or of the first requested objective."""
    first = advices.get(MAIN) or next(iter(advices.values()), None)
    if first is None:
        return "There is no advice; the reasons are below."
    if _untrained(evidence):
        return (
            f"Begin with {first.objective}'s default {first.parameter} of {first.default:.2g}; the {first.value:.2g} "
            "measured here is not the value to train with."
        )
    state = "keep less than half of their gradient" if first.parameter == "temperature" else "stop"
    return (
        f"For {first.objective} take a {first.parameter} of {first.value:.2g}: {1 - first.quantile:.0%} of the anchors "
        f"{state}. With the default of {first.default:.2g}, {first.past_default:.0%} do."
    )


def _untrained(evidence: Evidence) -> bool:
    """Whether the negatives are so close that the measured values are those of these embeddings alone."""
    return evidence.negative[0] > CONE


def _print(
    advices: dict[str, Advice], reasons: dict[str, str], views: Views, evidence: Evidence, quantile: float
) -> None:
    screen = console()
    soft = not screen.is_terminal
    screen.print(f"On {views.about}, in batches of {evidence.negatives + 1}.", soft_wrap=soft)
    screen.print()
    screen.print(_headline(advices, evidence), style="bold", soft_wrap=soft)
    if advices:
        screen.print(next(iter(advices.values())).caveat, soft_wrap=soft)
    screen.print()
    _print_evidence(screen, evidence, advices.get(MAIN))
    if advices:
        screen.print()
        _print_advice(screen, advices, _heading(evidence), quantile)
    if not math.isnan(evidence.ratio):
        screen.print()
        screen.print(
            f"Ratio (by default {', '.join(_ratios())}): at least {evidence.ratio:.2g}. With it {APPROACHING:.0%} of "
            f"the anchors come closer to their positive in a step of {STEP:g} away from their hardest negative "
            "(Lemma 1 of Li et al. 2024).", soft_wrap=soft,
        )  # fmt: skip
    if reasons:
        screen.print()
    for reason, names in _by_reason(reasons).items():
        screen.print(f"No advice for {', '.join(names)}: {reason}.", soft_wrap=soft)


def _heading(evidence: Evidence) -> str:
    return "measured" if _untrained(evidence) else "advised"


def _print_evidence(screen: Console, evidence: Evidence, softmax: Advice | None) -> None:
    soft = not screen.is_terminal
    (positive, spread), (negative, wide) = evidence.positive, evidence.negative
    screen.print(
        f"Evidence. Cosines: positives {positive:.3f} ± {spread:.3f}, negatives {negative:.3f} ± {wide:.3f}, the "
        f"hardest of an anchor's {evidence.negatives} negatives {evidence.hardest:.3f}. The gap is "
        f"{positive - negative:.3f} on average, {positive - evidence.hardest:.3f} to the hardest. What InfoNCE makes "
        "of them at each temperature:",
        soft_wrap=soft,
    )  # fmt: skip
    table = Table(box=None, padding=(0, 2, 0, 0))
    headings = ("temperature", "hardest", "hardest tenth", "negatives that count", "gradient left", "")
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for each in evidence.weights:
        marks = {_heading(evidence): softmax and float(f"{softmax.value:.2g}"), "default": softmax and softmax.default}
        table.add_row(
            f"{each.temperature:.2g}", f"{each.hardest:.0%}", f"{each.hardest_tenth:.0%}", f"{each.effective:.1f}",
            f"{each.gradient:.0%}", ", ".join(word for word, value in marks.items() if value == each.temperature),
        )  # fmt: skip
    print_table(screen, table)
    screen.print(
        "hardest, hardest tenth: their share of the negatives' weight. Nearly all on the hardest: false negatives "
        "count most, raise the temperature. Nearly all negatives count: hard ones count no more than others, lower it. "
        "gradient left: mean over the anchors; near 0 they have stopped.",
        style="dim", soft_wrap=soft,
    )  # fmt: skip


def _print_advice(screen: Console, advices: dict[str, Advice], first: str, quantile: float) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", style="cyan", no_wrap=True)
    for heading in (first, "default", "past it", "gap 10%", "50%", "90%"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, each in advices.items():
        table.add_row(
            f"{name} {each.parameter}", f"{each.value:.3g}", f"{each.default:.3g}", f"{each.past_default:.0%}",
            *(f"{gap:.3g}" for gap in each.spread),
        )  # fmt: skip
    print_table(screen, table)
    screen.print(
        f"{first}: {quantile:.0%} of the anchors go on moving, the others are past the edge: a margin has closed "
        "their gate, a temperature leaves them less than half of their gradient. past it: share of the anchors "
        "past the edge with the default. gap: how much closer an anchor's positive is than its "
        "negatives, in the objective's own terms; the value is its quantile, for a temperature divided by the "
        "logarithm of the number of negatives.",
        style="dim", soft_wrap=not screen.is_terminal,
    )  # fmt: skip


def _ratios() -> list[str]:
    """Objectives with a ratio, and their defaults."""
    numbers = {name: settings["ratio"].default for name in list_objectives()
               if "ratio" in (settings := objective_class(name).settings())}  # fmt: skip
    return [f"{name} {value:g}" for name, value in numbers.items() if isinstance(value, float)]


def _by_reason(reasons: dict[str, str]) -> dict[str, list[str]]:
    """The names of the objectives with one reason, which may name each of them."""
    together: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        together.setdefault(reason.replace(f" {name} ", " NAME "), []).append(name)
    return {reason if len(names) > 1 else reasons[names[0]]: names for reason, names in together.items()}
