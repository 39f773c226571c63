"""All commands under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from hypersphere import __version__
from hypersphere.cli.answers import OneSentence
from hypersphere.cli.benchmark import benchmark_objectives
from hypersphere.cli.dissect import dissect
from hypersphere.cli.objectives import objectives
from hypersphere.cli.reproduce import reproduce

app = typer.Typer(
    cls=OneSentence,
    help="Objectives on the unit hypersphere: what there is, and how fast it is.",
    epilog="Example: hypersphere objectives infonce",
    add_completion=False,
    rich_markup_mode=None,  # plain help: it reads well at 80 columns and in a pipe
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"hypersphere {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command(epilog="Example: hypersphere objectives met")(objectives)
app.command(epilog="Example: hypersphere dissect infonce met temperature=0.1")(dissect)
app.command(epilog="Example: hypersphere reproduce li2024/fig2 --quick")(reproduce)

benchmark = typer.Typer(
    help="Speed and memory beside the limit, the plain form and the peers.",
    epilog="Example: hypersphere benchmark objectives --only infonce --sizes 64,256,1024",
    rich_markup_mode=None,
)
app.add_typer(benchmark, name="benchmark")


@benchmark.callback(invoke_without_command=True)
def which(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


benchmark.command(
    "objectives",
    epilog="Example: hypersphere benchmark objectives --only infonce --only met --sizes 64,256,1024 --out bench",
)(benchmark_objectives)
