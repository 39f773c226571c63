"""All commands under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from hypersphere import __version__
from hypersphere.cli.advise import advise
from hypersphere.cli.answers import OneSentence
from hypersphere.cli.benchmark import benchmark_objectives
from hypersphere.cli.benchmark_training import benchmark_training
from hypersphere.cli.compare import compare
from hypersphere.cli.diagnose import diagnose
from hypersphere.cli.dissect import dissect
from hypersphere.cli.evaluate import evaluate
from hypersphere.cli.explore import explore
from hypersphere.cli.objectives import objectives
from hypersphere.cli.parity import parity
from hypersphere.cli.probe import probe
from hypersphere.cli.reproduce import reproduce
from hypersphere.cli.train import recipes, train

app = typer.Typer(
    cls=OneSentence,
    help="Objectives on the unit hypersphere: train with any of them, see what it did and why, compare it fairly.",
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
    debug: Annotated[  # OneSentence removes it from the words, so that it may stand anywhere
        bool, typer.Option("--debug", help="Print where an error came from, beside its sentence.")
    ] = False,
) -> None:
    if version:
        typer.echo(f"hypersphere {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command(epilog="Example: hypersphere objectives met")(objectives)
app.command(epilog="Example: hypersphere dissect infonce met temperature=0.1")(dissect)
app.command(epilog="Example: hypersphere advise sentence-transformers/all-MiniLM-L6-v2 --text sentences.txt")(advise)
app.command(epilog="Example: hypersphere reproduce li2024/fig2 --quick")(reproduce)
app.command(epilog="Example: hypersphere diagnose embeddings.npy --page health.html")(diagnose)
app.command(epilog="Example: hypersphere evaluate MODEL --sts SentEval/data/downstream")(evaluate)
app.command(epilog="Example: hypersphere probe runs/digits --labels 0.1,1.0 --json")(probe)
app.command(epilog="Example: hypersphere train digits objective=dhel steps=100")(train)
app.command(epilog="Example: hypersphere recipes")(recipes)
app.command(epilog="Example: hypersphere compare digits --objectives ntxent,dhel,vicreg,met --trials 8 --seeds 5")(
    compare
)
app.command(epilog="Example: hypersphere parity --peer lightly --out parity.md")(parity)

app.command(epilog="Example: hypersphere explore --runs runs --embeddings views.npz")(explore)

benchmark = typer.Typer(
    help="Speed and memory beside plain PyTorch and other libraries.",
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
benchmark.command("training", epilog="Example: hypersphere benchmark training bert-base-uncased wiki1m_for_simcse.txt")(
    benchmark_training
)
