"""``hypersphere objectives``: the table of all, or everything about one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hypersphere.anatomy.description import Description, Parameter, describe
from hypersphere.cli.answers import console, print_table
from hypersphere.cli.own import Imports, import_files, matching, need_objective
from hypersphere.objectives import files, list_objectives
from hypersphere.objectives.registry import is_registered


def objectives(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="One objective: met, mine.py:triplet. Or several: a pattern ('m*') or part of a name."
        ),
    ] = None,
    imports: Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """List the objectives, or print all about one.

    All about one: its formula, settings, paper and relations. A pattern, or a part of a name, lists the objectives that
    it fits.
    """
    import_files(imports)
    if name is None or not (is_registered(name) or files.split(name)):
        descriptions = [describe(each) for each in (list_objectives() if name is None else matching(name))]
        if as_json:
            typer.echo(json.dumps([asdict(each) for each in descriptions], indent=1, default=str))
        else:
            _print_table(descriptions)
        return
    need_objective(name)
    one = describe(name)
    if as_json:
        typer.echo(json.dumps(asdict(one), indent=1, default=str))
    else:
        _print_one(console(), one)


def _print_table(descriptions: list[Description]) -> None:
    screen = console()
    if screen.is_terminal:
        _print_for_eyes(screen, descriptions)
    else:
        _print_for_pipes(descriptions)


def _print_for_eyes(screen: Console, descriptions: list[Description]) -> None:
    """Two columns, so that eighty characters are enough."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column()
    for each in descriptions:
        words = Text(each.summary)
        own = ", ".join(_brief(parameter) for parameter in each.parameters if not parameter.common)
        words.append(f"\n{' · '.join(filter(None, [own, each.source]))}", style="dim")
        table.add_row(each.name, words)
    print_table(screen, table)
    screen.print()
    count = "1 objective" if len(descriptions) == 1 else f"{len(descriptions)} objectives"
    screen.print(f"{count}. 'hypersphere objectives NAME' shows all about one.", style="dim")


def _print_for_pipes(descriptions: list[Description]) -> None:
    """One line for each, in columns that do not fold."""
    rows = [("name", "what it does", "parameters", "source")]
    for each in descriptions:
        own = ", ".join(_brief(parameter) for parameter in each.parameters if not parameter.common)
        rows.append((each.name, each.summary, own, each.source))
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        typer.echo("  ".join([*padded, row[3]]).rstrip())


def _brief(parameter: Parameter) -> str:
    return parameter.name if parameter.required else f"{parameter.name}={_value(parameter.default)}"


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _call(name: str, settings: Iterable[tuple[str, Any]]) -> str:
    return f"{name}({', '.join(f'{key}={_value(value)}' for key, value in settings)})"


def _print_one(screen: Console, of: Description) -> None:
    def section(title: str, body: str | Table) -> None:
        if body:
            screen.print(f"\n{title}", style="bold")
            if isinstance(body, Table):
                print_table(screen, Padding(body, (0, 0, 0, 2)))
            for line in body.splitlines() if isinstance(body, str) else ():
                _print_indented(screen, line, hanging=title == "Formula")

    screen.print(Text.assemble((of.name, "bold cyan"), "  ", f"{of.summary}."))
    section("Formula", of.formula)
    section("Components of its gradient (dissipation, weight, ratio)", of.gradient)
    section("Settings", _settings(of.parameters))
    for setting, known in of.components.items():
        section(f"Components for {setting}", _components(known))
    section("When to use it", of.use)
    section("Source", of.paper)
    section("Relations", of.relations)
    if of.presets:
        section("Presets that use it", _presets(of.presets))
    required = "".join(f", {each.name}=…" for each in of.parameters if each.required)
    section("In Python", f'hs.create_objective("{of.name}"{required})')


def _print_indented(screen: Console, line: str, hanging: bool) -> None:
    """Prints a line with an indent of two spaces; if it is ``hanging``, its continuation lines have four."""
    for number, part in enumerate(Text(line).wrap(screen, screen.width - 4)):
        part.rstrip()
        screen.print(Text(" " * (4 if number and hanging else 2)) + part if part else "", soft_wrap=True)


def _grid() -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    return table


def _settings(parameters: Iterable[Parameter]) -> Table:
    table = _grid()
    for each in parameters:
        learned = ", may be learned" if each.learnable else ""
        tuned = f"; compare tunes it in {each.tuned}" if each.tuned else ""
        table.add_row(each.name, "required" if each.required else _value(each.default), each.allowed + learned + tuned)
    return table


def _components(known: dict[str, dict[str, Any]]) -> Table:
    table = _grid()
    for name, about in known.items():
        table.add_row(_call(name, about["parameters"].items()) if about["parameters"] else name, about["does"])
    return table


def _presets(presets: dict[str, dict[str, Any]]) -> Table:
    table = _grid()
    for preset, settings in presets.items():
        table.add_row(preset, ", ".join(f"{key}={_value(value)}" for key, value in settings.items()))
    return table
