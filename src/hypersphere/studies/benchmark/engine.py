"""The engine beside the bare matrix products and the plain form: forward and backward, float32, two threads.

    python -m benchmarks.engine                      # all objectives at N = 8192, D = 768
    python -m benchmarks.engine --only infonce --size 2048
    python -m benchmarks.engine --large              # and InfoNCE at N = 65536, D = 256
    python -m benchmarks.engine --device cuda        # on a GPU, beside the plain form alone: writes engine-cuda.csv

The two sides of every ratio were measured in turns. Ratios of times: below 1 is faster.
A measurement that writes a file may be interrupted: the same command continues it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hypersphere.documents import read_json
from hypersphere.report import atomic_write, markdown_table
from hypersphere.studies.arguments import INTERRUPTED, Arguments, whole_number
from hypersphere.studies.benchmark import plain
from hypersphere.studies.benchmark.cases import OURS, PLAIN, Case, as_loss, cases, chosen, inputs, step
from hypersphere.studies.benchmark.device import SIZES, as_csv, find_device, measured
from hypersphere.studies.benchmark.limits import InfoNCEByHand, Work, blocked, elementwise, whole, work
from hypersphere.studies.benchmark.measures import (
    fastest,
    format_duration,
    format_ratio,
    format_seconds,
    in_turns,
    machine,
    typical,
)
from hypersphere.studies.benchmark.worker import peak_bytes

THREADS, SIZE, DIM = 2, 8192, 768
Result = dict[str, Any]
ROW = "objective "  # prefix of the name of a row of the table


def progress(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def objective_result(case: Case, size: int, dim: int, repeats: int) -> Result:
    """One row of the table: the limit, ours and the plain form in turns; memory in processes of their own."""
    objective = case.create(dim)
    needed = work(objective, dim)
    z1, z2, labels = inputs(size, dim)
    actions: dict[str, Callable[[], object]] = {}
    if needed.products:
        actions |= {"blocked": blocked(needed, size, dim), "whole": whole(needed, size, dim)}
    actions["ours"] = lambda: step(as_loss(objective), z1, z2, labels)
    if case.elementwise:
        actions["pass"] = elementwise(case.elementwise, needed.matrices, size)
    plain_form = case.plain
    if plain_form is not None:
        actions["plain"] = lambda: step(lambda a, b, y: plain_form(objective, a, b, y), z1, z2, labels)
    seconds = fastest(in_turns(actions, repeats))
    sides = {"ours": OURS} if plain_form is None else {"ours": OURS, "plain": PLAIN}
    row: Result = {
        "label": case.label,
        "products": {"similarities": needed.similarities, "to_anchors": needed.to_anchors, "to_keys": needed.to_keys},
        "matrices": needed.matrices,
        "coupled": needed.similarities > needed.matrices,
        "one_sided": needed.to_keys < needed.to_anchors,
        "elementwise": case.elementwise,
        "seconds": seconds,
        "bytes": {side: peak_bytes(case.label, by, size, dim, THREADS) for side, by in sides.items()},
        "input_bytes": 2 * z1.numel() * z1.element_size(),
    }
    return {**row, **ratios(seconds)}


def ratios(seconds: dict[str, float]) -> Result:
    row: Result = {}
    limits = [seconds[form] for form in ("blocked", "whole") if form in seconds]
    if limits:
        row["limit"] = min(limits)
        row["to_limit"] = seconds["ours"] / row["limit"]
        if "pass" in seconds:
            row["to_limit_and_pass"] = seconds["ours"] / (row["limit"] + seconds["pass"])
    if "plain" in seconds:
        row["to_plain"] = seconds["ours"] / seconds["plain"]
    return row


def without_gradient(size: int, dim: int, repeats: int) -> Result:
    """InfoNCE's value alone, beside the one product it needs."""
    objective = Case("infonce", "infonce").create(dim)
    z1, z2, _ = inputs(size, dim)
    one = Work(similarities=1)

    @torch.no_grad()
    def value() -> Tensor:
        loss: Tensor = objective(z1, z2)
        return loss

    actions = {"blocked": blocked(one, size, dim), "whole": whole(one, size, dim), "ours": value}
    seconds = fastest(in_turns(actions, repeats))
    limit = min(seconds["blocked"], seconds["whole"])
    return {"seconds": seconds, "limit": limit, "to_limit": seconds["ours"] / limit}


def by_hand(size: int, dim: int, repeats: int) -> Result:
    """InfoNCE beside a hand-written form, its bare products, and two plain forms."""
    objective = Case("infonce", "infonce").create(dim)
    z1, z2, labels = inputs(size, dim)
    form, needed = InfoNCEByHand(size), work(objective, dim)
    actions = {
        "blocked": blocked(needed, size, dim),
        "whole": whole(needed, size, dim),
        "by_hand": lambda: form(z1, z2),
        "ours": lambda: step(objective, z1, z2, labels),
        "plain": lambda: step(lambda a, b, y: plain.infonce(a, b), z1, z2, labels),
        "formula": lambda: step(lambda a, b, y: plain.infonce_as_formula(a, b), z1, z2, labels),
    }
    seconds = fastest(in_turns(actions, repeats))
    return {"seconds": seconds, "to_by_hand": seconds["ours"] / seconds["by_hand"], **ratios(seconds)}


def small_batch(size: int, dim: int, repeats: int) -> Result:
    """InfoNCE at a size where overhead dominates, beside normalise, multiply, cross_entropy."""
    objective = Case("infonce", "infonce").create(dim)
    z1, z2, labels = inputs(size, dim)
    actions = {
        "ours": lambda: step(objective, z1, z2, labels),
        "plain": lambda: step(lambda a, b, y: plain.infonce(a, b), z1, z2, labels),
    }
    seconds = typical(in_turns(actions, repeats))
    return {"size": size, "dim": dim, "repeats": repeats, "seconds": seconds, **ratios(seconds)}


def large_batch(size: int, dim: int, repeats: int) -> Result:
    """InfoNCE at a size where the plain form's similarities alone would fill N² floats."""
    case = Case("infonce", "infonce")
    objective = case.create(dim)
    z1, z2, labels = inputs(size, dim)
    actions = {
        "blocked": blocked(work(objective, dim), size, dim),
        "ours": lambda: step(objective, z1, z2, labels),
    }
    seconds = fastest(in_turns(actions, repeats))
    return {
        "size": size,
        "dim": dim,
        "seconds": seconds,
        **ratios(seconds),
        "bytes": peak_bytes("infonce", OURS, size, dim, THREADS),
        "input_bytes": 2 * z1.numel() * z1.element_size(),
        "plain_matrix_bytes": 4 * size * size,
    }


def measurements(
    wanted: Sequence[Case], size: int, dim: int, repeats: int, large: bool
) -> dict[str, Callable[[], Result]]:
    """All measurements by name: a row for each objective, then those of InfoNCE alone."""
    actions: dict[str, Callable[[], Result]] = {
        f"{ROW}{case.label}": partial(objective_result, case, size, dim, repeats) for case in wanted
    }
    if any(case.label == "infonce" for case in wanted):
        actions |= {
            "by_hand": partial(by_hand, size, dim, repeats),
            "without_gradient": partial(without_gradient, size, dim, repeats),
            "small_batch": partial(small_batch, min(128, size), dim, 100 * repeats),
        }
    if large:
        actions["large_batch"] = partial(large_batch, 65536, 256, 1)
    return actions


class Parts:
    """Parts of a long measurement. Each is on disk as soon as it is measured, and a rerun starts from them."""

    def __init__(self, result: Path | None, settings: dict[str, Any]) -> None:
        """``result``: the file of the whole result, if any. Parts measured under other ``settings`` are an error."""
        self.settings = settings
        self.path = None if result is None else result.with_suffix(".part.json")
        if result is not None:
            _need_file(result)
        self.parts = self._before(self.path) if self.path is not None and self.path.exists() else {}

    def _before(self, path: Path) -> dict[str, Result]:
        try:
            kept = read_json(path, dict)
            settings, parts = dict(kept["settings"]), {name: dict(part) for name, part in kept["parts"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"{path} does not hold parts of a measurement; move it away to begin anew.") from None
        for name, value in self.settings.items():
            if settings.get(name) != value:
                raise ValueError(
                    f"{path} holds parts measured with {name} {settings.get(name)!r}, not {value!r}: "
                    "ask for the same again to continue, or move it away to begin anew."
                )
        return parts

    def measure(self, wanted: Mapping[str, Callable[[], Result]], progress: Callable[[str], None]) -> None:
        """Measures the missing parts; reports the next part and, after the first, how long the rest may take."""
        missing = [name for name in wanted if name not in self.parts]
        began = time.perf_counter()
        for number, name in enumerate(missing):
            words = f"{len(wanted) - len(missing) + number + 1}/{len(wanted)} {name.replace('_', ' ')}"
            if number:
                each = (time.perf_counter() - began) / number
                words += f"; about {format_duration(each * (len(missing) - number))} left"
            progress(words)
            self.parts[name] = wanted[name]()
            if self.path is not None:
                atomic_write(self.path, json.dumps({"settings": self.settings, "parts": self.parts}, indent=1) + "\n")

    def finish(self) -> None:
        """Removes the parts, once the result is written."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _need_file(path: Path) -> None:
    """Raises before an hour of work, not after it, if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{path.parent} cannot be a folder ({error.strerror}).") from None
    if path.is_dir():
        raise ValueError(f"{path} is a folder, so nothing can be written there.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"nothing can be written in {path.parent}.")


def as_result(wanted: Iterable[str], parts: Parts) -> Result:
    """The parts as one result."""
    result: Result = {**parts.settings, "objectives": []}
    for name in wanted:
        if name.startswith(ROW):
            result["objectives"].append(parts.parts[name])
        else:
            result[name] = parts.parts[name]
    return result


# ------------------------------------------------------------------------------------------------------------- the page


def megabytes(value: float | None) -> str:
    return "out of memory" if value is None else f"{value / 1e6:.0f} MB"


def products(row: Result) -> str:
    """Similarities + gradients of anchors + gradients of keys."""
    each = row["products"]
    total = sum(each.values())
    return f"{total} = {each['similarities']}+{each['to_anchors']}+{each['to_keys']}" if total else ""


def objectives_table(rows: list[Result]) -> str:
    header = ["objective", "products", "limit", "ours", "ours/limit", "extra pass", "ours/(limit+pass)"]
    header += ["plain", "ours/plain", "memory", "memory of plain"]
    lines = []
    for row in rows:
        times = row["seconds"]
        lines.append(
            [
                row["label"] + ("*" if row["one_sided"] else "") + ("†" if row["coupled"] else ""),
                products(row),
                format_seconds(row.get("limit")),
                format_seconds(times["ours"]),
                format_ratio(row.get("to_limit")),
                f"{row['elementwise']} {format_seconds(times['pass'])}" if "pass" in times else "",
                format_ratio(row.get("to_limit_and_pass")),
                format_seconds(times.get("plain")),
                format_ratio(row.get("to_plain")),
                megabytes(row["bytes"]["ours"]),
                megabytes(row["bytes"]["plain"]) if "plain" in row["bytes"] else "",
            ]
        )
    return markdown_table(header, lines)


def page(results: Result) -> str:
    on = results["machine"]
    parts = [
        "# The engine beside the bare matrix products and the plain form",
        f"N = {results['size']}, D = {results['dim']}, forward and backward, {on['dtype']}, {on['threads']} threads of "
        f"{on['processor']}, torch {on['torch']}; fastest of {results['repeats']} rounds, taken in turns.",
    ]
    if results["objectives"]:
        parts += [objectives_table(results["objectives"]), notes(results["objectives"])]
    if "by_hand" in results:
        row = results["by_hand"]
        times, bare = row["seconds"], row["limit"]
        slower = {name: f"{times['plain'] / each:.2f}" for name, each in {**times, "bare": bare}.items()}
        parts.append(
            f"**By hand** (infonce): {format_seconds(times['ours'])}, {row['to_by_hand']:.2f} of a form with its "
            f"gradients by formula that can do nothing else ({format_seconds(times['by_hand'])}). "
            f"The plain form of the same rounds takes {slower['ours']} times ours, "
            f"{slower['by_hand']} times that form, and {slower['bare']} times the three "
            f"products alone ({format_seconds(bare)}): nothing that computes these can gain more. It uses torch's "
            "cross_entropy; written as the formula reads (logsumexp less the positive) it takes "
            f"{times['formula'] / times['ours']:.2f} times ours."
        )
    if "without_gradient" in results:
        row = results["without_gradient"]
        parts.append(
            f"**Value without gradient** (infonce): {format_seconds(row['seconds']['ours'])}, "
            f"{row['to_limit']:.2f} of the one product it needs ({format_seconds(row['limit'])})."
        )
    if "small_batch" in results:
        row = results["small_batch"]
        parts.append(
            f"**Small batch** (infonce, N = {row['size']}, D = {row['dim']}, median of {row['repeats']}): "
            f"{format_seconds(row['seconds']['ours'])}, {row['to_plain']:.2f} of the plain form with cross_entropy "
            f"({format_seconds(row['seconds']['plain'])})."
        )
    if "large_batch" in results:
        row = results["large_batch"]
        parts.append(
            f"**Large batch** (infonce, N = {row['size']}, D = {row['dim']}): "
            f"{format_seconds(row['seconds']['ours'])}, {row['to_limit']:.2f} of its three products in blocks "
            f"({format_seconds(row['limit'])}), "
            f"{megabytes(row['bytes'])} above its inputs ({megabytes(row['input_bytes'])}); one similarity matrix of "
            f"the plain form would be {megabytes(row['plain_matrix_bytes'])}."
        )
    return "\n\n".join(parts) + "\n"


def notes(rows: list[Result]) -> str:
    inputs = megabytes(rows[0]["input_bytes"])
    lines = [
        "- products: those a straight evaluation needs, as similarities + gradients of anchors + gradients of keys. "
        "Every N×N matrix read (each view that is the anchors reads its own) needs 1+1+1; † coupled anchors need its "
        "similarities twice. The engine needs fewer, and may fall below the limit, in three cases: only anchors move; "
        "each anchor's gradient has one entry (met); the formula sees a log-sum-exp of a symmetric matrix, of one view "
        "with itself or of two views that are anchors in turn (8 products for the 12 of ntxent, 2 for the 3 of kcl, 4 "
        "for the 6 of infonce symmetric, where the plain form needs 3).",
        "- limit: these products alone, in blocks of 512 rows or of whole matrices, whichever is faster.",
        f"- memory: highest resident memory above the inputs ({inputs}), gradients of the inputs included, each in a "
        "fresh process.",
    ]
    if any(row["one_sided"] for row in rows):
        lines.insert(
            1,
            "- * only anchors move: no product for keys; a matrix without gradient (gates, weights) needs none of the "
            "gradient products, and one read for gates only is not needed a second time.",
        )
    if any(row["elementwise"] for row in rows):
        lines.append(
            "- extra pass: one forward pass of the named function over every similarity that is read, in strips that "
            "stay in cache; the function's own derivative is not counted."
        )
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------------------- the command


def main(arguments: Sequence[str] | None = None, results: Path | None = None) -> int:
    """``results``: the default file for the result of the whole benchmark."""
    parser = Arguments(prog="python -m benchmarks.engine", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="measure this objective only; repeatable")
    parser.add_argument("--size", type=whole_number(8), help=f"N, the batch: {SIZE}, on a GPU each of {SIZES}")
    parser.add_argument("--dim", type=whole_number(1), default=DIM, help="D, the embedding")
    parser.add_argument("--repeats", type=whole_number(1), default=3, help="rounds of which the fastest counts")
    parser.add_argument("--large", action="store_true", help="also InfoNCE at N = 65536, D = 256 (minutes)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write here, and the table beside it as .md")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:NUMBER")
    parser.add_argument("--csv", type=Path, metavar="PATH", help="on a GPU, write here instead of engine-cuda.csv")
    options = parser.parse_args(arguments)
    if options.device != "cpu":
        return on_device(parser, options)
    if options.csv:
        parser.error("--csv goes with --device cuda; on a CPU --json keeps the numbers.")
    options.size = options.size or SIZE
    complete = not options.only and (options.size, options.dim) == (SIZE, DIM)
    path = options.json or (results if complete else None)
    settings = {"machine": machine(THREADS), "size": options.size, "dim": options.dim, "repeats": options.repeats}
    try:
        named = chosen(options.only, cases())
    except ValueError as error:
        parser.error(f"argument --only: {error}")
    try:
        parts = Parts(path, settings)
    except ValueError as error:
        parser.error(str(error))
    wanted = measurements(named, options.size, options.dim, options.repeats, options.large)
    torch.set_num_threads(THREADS)
    try:
        parts.measure(wanted, progress)
    except KeyboardInterrupt:
        kept = parts.path if parts.parts else None
        progress(f"Stopped; {f'the same command continues with what is in {kept}' if kept else 'nothing was written'}.")
        return INTERRUPTED
    result = as_result(wanted, parts)
    text = page(result)
    written = "nothing written: this is not the whole benchmark (--json PATH to keep it)"
    if path is not None:
        atomic_write(path, json.dumps(result, indent=1) + "\n")
        written = f"written: {path} and {atomic_write(path.with_suffix('.md'), text)}"
        parts.finish()
    print(text)
    progress(written)
    return 0


def on_device(parser: Arguments, options: Any) -> int:
    """Ours and the plain form on a GPU; the CSV file names the device, so that it can be compared with others'."""
    path = options.csv or Path("engine-cuda.csv")
    try:
        device = find_device(options.device)
        if options.large or options.json:
            raise ValueError("--large and --json are for the CPU; on a GPU --csv names the file.")
        named = chosen(options.only, cases())
        _need_file(path)
    except ValueError as error:
        parser.error(str(error))
    lines = []
    for line in measured(named, [options.size] if options.size else SIZES, options.dim, options.repeats, device):
        lines.append(line)
        atomic_write(path, as_csv(lines))  # an interruption keeps what was measured
        progress(", ".join(str(line[key]) for key in ("objective", "by", "size", "seconds", "problem") if line[key]))
    progress(f"written: {path}")
    return 0
