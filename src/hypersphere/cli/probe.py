"""``hypersphere probe``: how much an image encoder has learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hypersphere.cli.answers import fail
from hypersphere.cli.starting import nothing_begun
from hypersphere.documents import locate
from hypersphere.messages import first_line, printable
from hypersphere.studies.arguments import INTERRUPTED


def probe(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run on images.")],
    kind: Annotated[
        str, typer.Option("--kind", metavar="NAME", help="linear, mlp (CLOA's classifier), finetune or knn.")
    ] = "linear",
    labels: Annotated[
        str, typer.Option("--labels", metavar="A,B", help="Shares of the labels to learn from.")
    ] = "0.1,0.5,1.0",
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Draws of each share.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Accuracy of classifiers on a run's image encoder.

    For a sentence encoder there is hypersphere evaluate. linear: logistic regression on its features; mlp: a small
    network on them; finetune: the encoder learns too; knn: a vote of the nearest training images. Every finished score
    is kept in RUN/probes.json: an interrupted probe continues, and a second one takes seconds.
    """
    try:
        shares = [float(share) for share in labels.split(",") if share.strip()]
    except ValueError:
        fail(f"--labels takes shares such as 0.1,0.5,1.0, not {labels!r}.")
    run = locate(run)
    _need_image_run(run)
    try:
        with nothing_begun():
            from hypersphere.evaluation.probes import evaluate_run

        result = evaluate_run(run, probe=kind, labels=shares, seeds=seeds, progress=True)
    except (ValueError, TypeError, ImportError, FileNotFoundError, NotADirectoryError) as error:
        fail(f"{first_line(error).rstrip('.')}.")
    except OSError as error:
        fail(f"{error.filename or 'a file'} cannot be written or read ({error.strerror}).")
    except KeyboardInterrupt:
        kept = run / "probes.json"
        further = f"finished scores are in {kept}, and the same command continues" if kept.exists() else "no score yet"
        typer.echo(printable(f"Stopped; {further}."), err=True)
        raise typer.Exit(INTERRUPTED) from None
    typer.echo(printable(json.dumps(result.to_dict(), indent=1) if as_json else str(result)))


def _need_image_run(run: Path) -> None:
    """Ends the command if RUN is a sentence encoder, or the ``model`` inside a run."""
    if not run.is_dir():
        fail(f"there is no folder {run}.")
    for folder in (run, run / "model"):
        if any((folder / name).is_file() for name in ("config.json", "modules.json")):
            fail(f"{run} is a sentence encoder: hypersphere evaluate {run} --sts DIR")
    if (run / "encoder.json").is_file() and (run.parent / "recipe.yaml").is_file():
        fail(f"{run} is the encoder of a run: hypersphere probe {run.parent}")
