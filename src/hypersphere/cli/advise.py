"""``hypersphere advise``: which temperature or margin suits the embeddings at hand, with the evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hypersphere.anatomy.advice import Advice, list_advice, why_not
from hypersphere.anatomy.advice import advise as find
from hypersphere.cli.answers import console, fail, print_table
from hypersphere.cli.own import Imports, import_files, need_objective
from hypersphere.cli.views import Views, find_views


def advise(
    source: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model with --text; a run; or a file with z1 and z2.")
    ],
    text: Annotated[
        Path | None, typer.Option("--text", metavar="FILE", help="Lines that the model embeds twice, with dropout.")
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
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="Of batches, dropout.")] = 0,
    imports: Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Which temperature or margin suits these embeddings, for every objective that has one.

    The value puts the edge where an anchor's gradient ends at a quantile of the measured gap between its positive and
    its negatives: half of the anchors go on moving, half have stopped. A lower value stops more of them.
    """
    import_files(imports)
    for name in objectives or []:
        need_objective(name)
    if not 0 <= quantile <= 1:
        fail(f"--quantile is between 0 and 1, not {quantile:g}.")
    views = find_views(source, text, seed)
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
    if as_json:
        typer.echo(json.dumps(_as_json(advices, reasons, views, min(batch, len(views.z1))), indent=1))
        return
    _print(advices, reasons, views, min(batch, len(views.z1)), quantile)


def _as_json(advices: dict[str, Advice], reasons: dict[str, str], views: Views, batch: int) -> dict[str, Any]:
    return {
        "embeddings": views.about,
        "batch": batch,
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
        "without": reasons,
        "caveat": next((each.caveat for each in advices.values()), None),
    }


def _print(advices: dict[str, Advice], reasons: dict[str, str], views: Views, batch: int, quantile: float) -> None:
    screen = console()
    soft = not screen.is_terminal
    screen.print(f"On {views.about}, in batches of {batch}.", soft_wrap=soft)
    screen.print()
    if advices:
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("", style="cyan", no_wrap=True)
        for heading in ("advised", "default", "past it", "gap 10%", "50%", "90%"):
            table.add_column(heading, justify="right", no_wrap=True)
        for name, each in advices.items():
            table.add_row(
                f"{name} {each.parameter}", f"{each.value:.3g}", f"{each.default:.3g}", f"{each.past_default:.0%}",
                *(f"{gap:.3g}" for gap in each.spread),
            )  # fmt: skip
        print_table(screen, table)
        screen.print()
        screen.print(
            f"advised: {quantile:.0%} of the anchors go on moving, the others are past the edge: a margin has closed "
            "their gate, a temperature leaves them less than half of their gradient. past it: share of the anchors "
            "past the edge with the default. gap: how much closer an anchor's positive is than its "
            "negatives, in the objective's own terms; the advice is its quantile, for a temperature divided by the "
            "logarithm of the number of negatives.",
            style="dim", soft_wrap=soft,
        )  # fmt: skip
        screen.print()
        screen.print(next(iter(advices.values())).caveat, style="bold", soft_wrap=soft)
    for reason in dict.fromkeys(reasons.values()):
        names = ", ".join(name for name, why in reasons.items() if why == reason)
        screen.print()
        screen.print(f"No advice for {names}: {reason}.", soft_wrap=soft)
