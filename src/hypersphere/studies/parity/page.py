"""The measured differences as tables, with the reasons for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hypersphere.report.tables import markdown_table
from hypersphere.studies.parity.measure import DIM, EQUAL, EXACT, FACTOR, ROWS
from hypersphere.studies.parity.reasons import reason
from hypersphere.studies.parity.setups import PEERS

COMMAND = "hypersphere parity --out docs/parity.md"
UNKNOWN = "differs, no reason known"


class Part(NamedTuple):
    """A table, the sentence that sums it up, and a sentence for each difference."""

    title: str
    header: list[str]
    rows: list[list[str]]
    summary: str
    reasons: list[str]


def verdict(record: dict[str, Any], processes: int) -> str:
    """The verdict in words.

    >>> verdict({"verdict": "factor", "ratio": 0.5, "cosine": 1.0}, 2)
    'wrong factor 1/W'
    """
    if record["verdict"] == EQUAL:
        return "equal"
    kind = "other" if processes == 1 else "wrong"
    if record["verdict"] == FACTOR:
        return f"{kind} factor {_factor(record['ratio'], processes)}"
    return f"{kind} direction, cosine {record['cosine']:.4f}"


def _factor(ratio: float, processes: int) -> str:
    named = {1.0: "1", 1 / processes: "1/W", float(processes): "W"}
    return next((name for value, name in named.items() if abs(ratio - value) < EXACT * value), f"{ratio:.4g}")


def parts(results: dict[str, Any]) -> list[Part]:
    return [_one(results) if count == 1 else _several(results, count) for count in results["processes"]]


def _rows(results: dict[str, Any], processes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for peer, answer in results["peers"].items():
        for row in answer["rows"]:
            if row["processes"] == processes:
                yield peer, row


def _one(results: dict[str, Any]) -> Part:
    rows, reasons = [], []
    seen: set[tuple[str, str, str]] = set()
    for peer, row in _rows(results, 1):
        record = row.get("theirs")
        words = verdict(record, 1) if record else f"failed: {row['failed']}"
        if (peer, row["case"], words) in seen:  # the same loss with another option for several processes
            continue
        again = any(each[:2] == (peer, row["case"]) for each in seen)
        seen.add((peer, row["case"], words))
        objective = f"{row['case']}: {row['options']}" if again else row["case"]
        numbers = [f"{record[key]:.6g}" for key in ("right_value", "value")] if record else ["", ""]
        rows.append([peer, objective, *numbers, f"{record['largest']:.0e}" if record else "", words])
        if words != "equal":
            reasons.append(_sentence(peer, row, 1, words))
    equal = sum(row[-1] == "equal" for row in rows)
    header = ["peer", "objective", "our value", "their value", "gradients differ by", "verdict"]
    return Part("On one process", header, rows, f"{equal} of {len(rows)} losses are equal to ours.", reasons)


def _several(results: dict[str, Any], processes: int) -> Part:
    rows, reasons, ours = [], [], []
    for peer, row in _rows(results, processes):
        record = row.get("theirs")
        cells = [peer, row["options"], row["case"]]
        if record is None:
            words = f"failed: {row['failed']}"
            rows.append([*cells, "", "", "", words, ""])
        else:
            words = verdict(record, processes)
            ours.append(verdict(row["ours"], processes))
            scale = "" if record["parameters"] is None else f"{record['parameters']:.4g}"
            value = record["value"] / record["right_value"]
            rows.append([*cells, f"{value:.4g}", f"{record['ratio']:.4g}", scale, words, ours[-1]])
        if words != "equal":
            reasons.append(_sentence(peer, row, processes, words))
    header = ["peer", "set-up", "objective", "value", "gradient", "scale's gradient", "verdict", "ours"]
    wrong = sum(row[-2].startswith("wrong") for row in rows)
    summary = (
        f"{wrong} of {len(ours)} set-ups do not have the gradient of one process; "
        f"ours has it in {ours.count('equal')} of {len(ours)}."
    )
    return Part(f"On {processes} processes", header, rows, summary, reasons)


def _sentence(peer: str, row: dict[str, Any], processes: int, words: str) -> str:
    record = row.get("theirs")
    known = record and reason(peer, row["options"], processes, record["verdict"])
    if not known:
        why = UNKNOWN.capitalize() + "." if record else ""
    else:
        why = f"{known.why} {known.right}".rstrip() + (f" ({known.issue})" if known.issue else "")
    return f"{peer}, {row['options'] or row['case']}: {words}. {why}".rstrip()


def markdown(results: dict[str, Any]) -> str:
    """The page."""
    lines = [
        "# Parity with other libraries",
        "",
        f"Value and gradient of every objective that another library has too. `{COMMAND}` wrote this page.",
        "",
    ]
    lines += [f"- {part.title}: {part.summary}" for part in parts(results)]
    for part in parts(results):
        lines += ["", f"## {part.title}", "", markdown_table(part.header, part.rows)]
        if part.reasons:
            lines += ["", *(f"- {each}" for each in part.reasons)]
    if results["absent"]:
        lines += ["", "## Not measured", "", *(f"- {peer}: {why}." for peer, why in results["absent"].items())]
    lines += ["", "## How it is measured", "", *(f"- {each}" for each in notes(results)), ""]
    return "\n".join(lines)


def notes(results: dict[str, Any]) -> list[str]:
    versions = [
        f"{peer} {answer['version']}" + f" (torch {answer['torch']})" * PEERS[peer].apart
        for peer, answer in results["peers"].items()
    ]
    return [
        f"Each process has {ROWS} rows of {DIM} features, in float64. Gradients are equal if no entry differs by more "
        f"than {EXACT:g} of the largest.",
        "On several processes, W of them, the right gradient is that of the same set-up on one process that holds the "
        "whole batch. DDP divides the sum of the processes' gradients by W; this is included.",
        "value, gradient and scale's gradient are divided by the right ones. The scale is the logit scale (and bias) "
        "that the model owns and DDP averages too.",
        "A loss that does not gather contrasts the rows of each process alone; it is listed on one process only.",
        f"hypersphere {results['hypersphere']}; {', '.join(versions) or 'no peer'}.",
    ]
