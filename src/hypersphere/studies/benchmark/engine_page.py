"""Measurements as a page of markdown."""

from __future__ import annotations

from typing import Any

from hypersphere.report import markdown_table
from hypersphere.studies.benchmark.measures import format_ratio, format_seconds

Result = dict[str, Any]


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
