"""``hypersphere parity``: our values and gradients beside those of other libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hypersphere.cli.answers import console, fail, need_file, print_table
from hypersphere.names import did_you_mean
from hypersphere.report import atomic_write
from hypersphere.studies.parity import page
from hypersphere.studies.parity.run import run
from hypersphere.studies.parity.setups import PEERS

MOST = 8  # processes on one machine
WIDE = 200  # columns in a pipe


def parity(
    peer: Annotated[list[str] | None, typer.Option(metavar="NAME", help="This library only; repeatable.")] = None,
    processes: Annotated[str, typer.Option(metavar="N,N,…", help="Numbers of processes.")] = "1,2",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the page goes, in Markdown.")] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(metavar="PEER=PATH", help="Python with this library and hypersphere; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result for machines.")] = False,
) -> None:
    """Our values and gradients beside other libraries'.

    Every objective that an installed library has too, on one process and on several. On several processes the right
    gradient is that of one process with the whole batch. Libraries that cannot be installed beside this package are
    found in the environment that benchmarks/peers_env/create.py makes.
    """
    for name in peer or ():
        _need_peer(name)
    counts = _processes(processes)
    pythons = dict(_python(word) for word in python or ())
    if out is not None:
        need_file(out)
    screen = console(stderr=True)
    asked = list(dict.fromkeys(peer or PEERS))
    results = run(asked, counts, pythons, screen.print)
    if as_json:
        typer.echo(json.dumps(results))
    else:
        _show(results, asked)
    if out is not None:
        try:
            typer.echo(f"Written: {atomic_write(out, page.markdown(results))}", err=as_json)
        except OSError as error:
            fail(f"{out} cannot be written ({error.strerror}).")


def _need_peer(name: str) -> None:
    if name not in PEERS:
        fail(f"there is no peer {name!r}{did_you_mean(name, PEERS)} (there are {', '.join(PEERS)}).")


def _processes(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and 1 <= int(word) <= MOST for word in words):
        fail(f"--processes must be whole numbers from 1 to {MOST} with commas between them, such as 1,2, not {text!r}.")
    return sorted({int(word) for word in words})


def _python(word: str) -> tuple[str, str]:
    name, equals, path = word.partition("=")
    if not equals:
        fail(f"--python must be PEER=PATH, such as lightly=venv/bin/python, not {word!r}.")
    _need_peer(name)
    if not Path(path).is_file():
        fail(f"there is no Python at {path} for --python {name}.")
    return name, str(Path(path).absolute())  # a link to an interpreter marks its environment: not resolved


def _show(results: dict[str, Any], asked: list[str]) -> None:
    screen = console()
    if not screen.is_terminal:
        screen.width = WIDE
    for part in page.parts(results):
        if not part.rows:  # no library to compare with is installed
            continue
        screen.print(f"{part.title}: {part.summary}", style="bold")
        table = Table(box=None, padding=(0, 1, 0, 0))
        for place, name in enumerate(part.header):
            table.add_column(name, overflow="fold", style="cyan" * (place == 0))
        for row in part.rows:
            table.add_row(*row)
        print_table(screen, table)
        screen.print()
        for each in part.reasons:
            screen.print(f"- {each}", soft_wrap=not screen.is_terminal)
        screen.print()
    if len(results["absent"]) == len(asked):
        screen.print("No other library is installed to compare with.")
    for name, why in results["absent"].items():
        screen.print(f"{name}: {why}.", style="yellow", soft_wrap=not screen.is_terminal)
