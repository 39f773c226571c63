"""NT-Xent beside pytorch-metric-learning's NTXentLoss: time and memory, forward and backward.

    python -m benchmarks.peers                       # N = 256 and 512 pairs of views, D = 768

The peer lists every pair of every positive with every negative, N³ of them, so it runs in a process of its own with
a limit on its memory; what does not fit is reported as such.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.cases import inputs, step
from benchmarks.memory import peak_above
from benchmarks.tables import megabytes, ratio, seconds
from benchmarks.timing import fastest, in_turns, machine
from hypersphere.objectives import create_objective
from hypersphere.report import markdown_table, write_whole
from hypersphere.studies.arguments import Arguments, whole_number

RESULTS = Path(__file__).parent / "results" / "peers.json"
THREADS, TEMPERATURE = 2, 0.5
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def ours() -> Loss:
    objective = create_objective("ntxent", temperature=TEMPERATURE)
    return lambda z1, z2, labels: objective(z1, z2)


def peer() -> Loss:
    """Labels say which two rows are views of the same instance."""
    from pytorch_metric_learning.losses import NTXentLoss

    loss = NTXentLoss(temperature=TEMPERATURE)

    def of_views(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        found: Tensor = loss(torch.cat([z1, z2]), torch.arange(len(z1)).repeat(2))
        return found

    return of_views


SIDES: dict[str, Callable[[], Loss]] = {"ours": ours, "peer": peer}


def measure(what: str, size: int, dim: int, repeats: int) -> dict[str, float]:
    """Inside the limited process: "time" of both sides in turns or "time-ours", or one side's memory, in bytes."""
    few, many = inputs(8, dim), inputs(size, dim)
    losses = {name: make() for name, make in SIDES.items()}
    for loss in losses.values():
        step(loss, *few)  # what is loaded at first use is not counted
    if what.startswith("time"):
        timed = {name: partial(step, loss, *many) for name, loss in losses.items() if what == "time" or name == "ours"}
        return fastest(in_turns(timed, repeats))
    return {what: peak_above(lambda: step(losses[what], *many))}


def limited(what: str, size: int, dim: int, repeats: int, gigabytes: int) -> dict[str, float] | None:
    """The same in a process of its own; None if ``gigabytes`` were not enough for it."""
    command = [sys.executable, "-m", "benchmarks.peers", "--inside", what, "--size", str(size)]
    command += ["--dim", str(dim), "--repeats", str(repeats), "--limit", str(gigabytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        found: dict[str, float] = json.loads(done.stdout)
        return found
    if done.returncode < 0 or "allocate memory" in done.stderr or "MemoryError" in done.stderr:
        return None
    raise RuntimeError(f"measuring {what} at N = {size} failed: {done.stderr.strip().splitlines()[-1]}")


def compare(size: int, dim: int, repeats: int, gigabytes: int) -> dict[str, Any]:
    """Bytes and seconds of both sides; the peer's are None where it does not fit."""
    taken = {side: limited(side, size, dim, repeats, gigabytes) for side in SIDES}
    found: dict[str, Any] = {"size": size, "bytes": {side: each and each[side] for side, each in taken.items()}}
    times = limited("time" if taken["peer"] else "time-ours", size, dim, repeats, gigabytes) or {}
    found["seconds"] = times
    if "peer" in times:
        found["to_peer"] = times["ours"] / times["peer"]
    return found


def page(found: dict[str, Any]) -> str:
    on = found["machine"]
    rows = []
    for row in found["rows"]:
        memory, times = row["bytes"], row["seconds"]
        fits = memory["peer"] is not None
        rows.append(
            [
                str(row["size"]),
                seconds(times.get("ours")),
                seconds(times.get("peer")) if fits else f"does not fit in {found['limit_gigabytes']} GB",
                ratio(row.get("to_peer")),
                megabytes(memory["ours"]),
                megabytes(memory["peer"]),
                ratio(memory["ours"] / memory["peer"]) if fits else "",
            ]
        )
    header = ["pairs of views", "ours", "NTXentLoss", "ours/peer", "memory", "memory of NTXentLoss", "ours/peer"]
    return (
        "# NT-Xent beside pytorch-metric-learning\n\n"
        f"D = {found['dim']}, forward and backward, {on['dtype']}, {on['threads']} threads of {on['processor']}, torch "
        f"{on['torch']}, pytorch-metric-learning {found['peer']}; fastest of {found['repeats']} rounds, taken in "
        "turns; memory: highest above the inputs, each in a fresh process.\n\n" + markdown_table(header, rows) + "\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(prog="python -m benchmarks.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=whole_number(8), action="append", help="N, pairs of views; repeatable")
    parser.add_argument("--dim", type=whole_number(1), default=768, help="D, the embedding")
    parser.add_argument("--repeats", type=whole_number(1), default=3, help="rounds of which the fastest counts")
    parser.add_argument("--limit", type=whole_number(1), default=12, help="gigabytes a process may take")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write here, and the table beside it as .md")
    parser.add_argument(
        "--inside", choices=["time", "time-ours", *SIDES], help="measure here and now (used by the above)"
    )
    options = parser.parse_args(arguments)
    sizes = options.size or [256, 512]
    torch.set_num_threads(THREADS)
    if options.inside:
        resource.setrlimit(resource.RLIMIT_AS, (options.limit * 2**30, options.limit * 2**30))
        print(json.dumps(measure(options.inside, sizes[0], options.dim, options.repeats)))
        return 0
    import pytorch_metric_learning

    found: dict[str, Any] = {
        "machine": machine(THREADS),
        "peer": pytorch_metric_learning.__version__,
        "dim": options.dim,
        "repeats": options.repeats,
        "limit_gigabytes": options.limit,
        "rows": [],
    }
    for size in sizes:
        print(f"N = {size}", file=sys.stderr, flush=True)
        found["rows"].append(compare(size, options.dim, options.repeats, options.limit))
    text = page(found)
    print(text)
    path = options.json or (None if options.size else RESULTS)
    if path is not None:
        write_whole(path, json.dumps(found, indent=1) + "\n")
        print(f"written: {path} and {write_whole(path.with_suffix('.md'), text)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
