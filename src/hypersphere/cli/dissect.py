"""``hypersphere dissect``: what objectives do to the anchors of a batch, in a table, in words and in a figure."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from hypersphere.anatomy import Anatomy
from hypersphere.anatomy import dissect as take_apart
from hypersphere.cli.answers import console, fail, need_folder
from hypersphere.cli.dissection import Case, Question, draw, print_answer
from hypersphere.cli.dissection import as_json as to_json
from hypersphere.cli.own import Imports, import_files, need_objective
from hypersphere.cli.views import SIZE, Views, find_views
from hypersphere.names import did_you_mean
from hypersphere.objectives import CLOA, Objective, create_objective, within
from hypersphere.objectives.registry import objective_class


def dissect(
    words: Annotated[
        list[str], typer.Argument(metavar="NAME|KEY=VALUE", help="Objectives by name, and settings for them.")
    ],
    embeddings: Annotated[
        str | None,
        typer.Option(
            "--embeddings",
            metavar="SOURCE",
            help="A file with z1 and z2, and labels if you have any; a run; or a model with --text.",
        ),
    ] = None,
    text: Annotated[
        Path | None, typer.Option("--text", metavar="FILE", help="Lines that the model embeds twice, or pairs by tab.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the figures.")] = Path("dissected"),
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="Of the synthetic batch.")] = 0,
    step: Annotated[float, typer.Option("--step", metavar="λ", help="Step of Lemma 1.")] = 0.1,
    negative: Annotated[
        str, typer.Option("--negative", metavar="WHICH", help="Lemma 1 against the hardest negative or their mean.")
    ] = "hardest",
    scope: Annotated[
        str, typer.Option("--scope", metavar="WHICH", help="anchor: of each anchor's own loss; batch: of all of it.")
    ] = "anchor",
    pdf: Annotated[bool, typer.Option("--pdf", help="Write the figures as PDF too.")] = False,
    imports: Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """What objectives do to the anchors of a batch.

    How much gradient they keep, which negatives count, and how pull and push compare; on your own embeddings, or on a
    synthetic batch. A setting goes to every named objective that has it; several values
    (temperature=0.01,0.05,0.1) make a sweep. Figures are written of the anchors of this batch, and maps over the angles
    for objectives with a closed form.
    """
    import_files(imports)
    names = [word for word in words if "=" not in word]
    settings = _settings([word for word in words if "=" in word])
    _check(names, settings)
    if not 0 < step < math.inf or negative not in ("hardest", "mean"):
        fail(f"Lemma 1 is for a finite step above 0 against 'hardest' or 'mean', not {step:g} and {negative!r}.")
    if scope not in ("anchor", "batch"):
        fail(f"--scope is anchor or batch, not {scope!r}.")
    swept = [key for key, values in settings.items() if len(values) > 1]
    if len(swept) > 1:
        fail(f"one setting at a time takes several values, not {' and '.join(swept)}.")
    need_folder(out)
    views = find_views(embeddings, text, seed)
    cases = _cases(names, settings, swept[0] if swept else "", views)
    anatomies, note = _take_apart(cases, views, scope)
    values = tuple(settings[swept[0]]) if swept else ()
    asked = Question(views.about, step, negative, swept[0] if swept else "", values, note)
    files = draw(cases, anatomies, asked, out, ("png", "pdf") if pdf else ("png",))
    if as_json:
        typer.echo(json.dumps(to_json(cases, anatomies, asked, files), indent=1))
        return
    print_answer(cases, anatomies, asked)
    for path in files:
        typer.echo(f"figure: {path}")


def _cases(names: list[str], settings: dict[str, list[Any]], swept: str, views: Views) -> list[Case]:
    """The named objectives, once for each value of the swept setting if they have it."""
    cases = []
    for name in dict.fromkeys(names):
        mine = swept in objective_class(name).settings()
        for value in settings[swept] if mine else [None]:
            chosen = {key: values[0] for key, values in settings.items()} | ({swept: value} if mine else {})
            title = f"{name} {swept}={value}" if mine else name
            cases.append(Case(name, title, _objective(name, chosen, views), value))
    return cases


def _take_apart(cases: list[Case], views: Views, scope: str) -> tuple[list[Anatomy], str]:
    """Anatomies in one scope, so that their lengths compare: the scope is the batch if one objective has no other."""

    def of(case: Case, scope: str) -> Anatomy:
        screen.print(f"dissecting {case.objective}", style="dim", soft_wrap=True)
        try:
            labels = _labels(case.objective, views)
            return take_apart(case.objective, views.z1, views.z2, labels, scope=scope, most_anchors=most)
        except (ValueError, RuntimeError) as error:
            fail(f"{case.objective} cannot be taken apart on this batch: {str(error).splitlines()[0]}.")

    screen = console(stderr=True)
    most = SIZE if len(views.z1) <= SIZE else 64  # all anchors of a small batch, so that all columns share them
    anatomies = [of(case, scope) for case in cases]
    shared = [case.title for case, each in zip(cases, anatomies, strict=True) if each.scope != scope]
    if not shared:
        return anatomies, ""
    anatomies = [
        each if each.scope != scope else of(case, "batch") for case, each in zip(cases, anatomies, strict=True)
    ]
    return anatomies, f" ({', '.join(shared)} has no other)"


def _settings(words: list[str]) -> dict[str, list[Any]]:
    """Values of each setting: several, separated by commas, for a sweep."""
    settings: dict[str, list[Any]] = {}
    for word in words:
        key, _, value = word.partition("=")
        parts = _parts(value)
        if not key.isidentifier() or not all(parts):
            fail(f"a setting is written key=value, such as temperature=0.1 or temperature=0.05,0.1, not {word!r}.")
        settings[key] = [_value(part) for part in parts]
    return settings


def _parts(value: str) -> list[str]:
    """Splits at commas outside brackets and quotes.

    >>> _parts("0.01,0.05"), _parts("{'name': 'margin', 'margin': 0.3}"), _parts("cross,both")
    (['0.01', '0.05'], ["{'name': 'margin', 'margin': 0.3}"], ['cross', 'both'])
    """
    parts, depth, quote = [""], 0, ""
    for sign in value:
        if quote or sign in "'\"":
            quote = "" if sign == quote else quote or sign
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _value(part: str) -> Any:
    try:
        return ast.literal_eval(part)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(part.lower(), part)


def _check(names: list[str], settings: dict[str, list[Any]]) -> None:
    """Refuses, in one sentence, an unknown objective or a setting that none of the objectives has."""
    if not names:
        fail("name at least one objective; 'hypersphere objectives' lists them.")
    for name in names:
        need_objective(name)
    every = sorted({key for name in names for key in objective_class(name).settings()})
    for key in settings:
        if key not in every:
            hint = did_you_mean(key, every) or f"; there are {', '.join(every)}."
            fail(f"no setting {key!r} in {', '.join(names)}{hint}")


def _objective(name: str, settings: dict[str, Any], views: Views) -> Objective:
    own = {key: value for key, value in settings.items() if key in objective_class(name).settings()}
    if issubclass(objective_class(name), CLOA):
        classes = 1 if views.labels is None else max(1, int(views.labels.max()) + 1)
        own = {"num_classes": classes, "dim": views.z1.shape[1], **own}
    try:
        objective = create_objective(name, **own)
    except (TypeError, ValueError) as error:
        fail(f"{str(error).splitlines()[0].rstrip('.')}.")
    if views.labels is None and any(isinstance(each, CLOA) for each in within(objective)):
        fail(
            "cloa pulls labelled rows to its anchors and is its base without them: put an array 'labels' beside z1 "
            "and z2 (whole numbers from 0, -1 where unknown), or dissect the base."
        )
    return objective


def _labels(objective: Objective, views: Views) -> Tensor | None:
    """The batch's labels, for objectives that read them; without labels, every instance is a class of its own."""
    if any(getattr(each, "labelled", False) for each in within(objective)):
        return torch.arange(len(views.z1)) if views.labels is None else views.labels
    return views.labels if any(isinstance(each, CLOA) for each in within(objective)) else None
