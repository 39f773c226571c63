"""What a comparison costs beside its training, and whether two runs of one thread beat one run of two.

    python -m benchmarks.compare [--steps 200] [--json benchmarks/results/compare.json]

The same study on the digits runs twice, once for each way to share two cores. Overhead is the time of the study, times
the runs side by side, over the sum of the runs' own times, minus 1.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path

from hypersphere.report import atomic_write, markdown_table
from hypersphere.studies.compare import compare
from hypersphere.studies.compare.worker import cores


def measure(jobs: int, steps: int, folder: Path) -> dict[str, float]:
    """One study with ``jobs`` runs side by side that share the cores."""
    start = time.perf_counter()
    comparison = compare(
        "digits", ["ntxent", "dhel"], [f"steps={steps}"], trials=3, seeds=4, jobs=jobs, echo=lambda words: None,
        output=str(folder / f"jobs{jobs}"),
    )  # fmt: skip
    seconds = time.perf_counter() - start
    runs = [run for row in comparison.rows for run in (*row.tuning, *row.runs)]
    spent = sum(run.result["seconds"] for run in runs)
    return {"jobs": jobs, "threads": max(1, cores() // jobs), "runs": len(runs), "seconds": round(seconds, 1),
            "seconds of runs": round(spent, 1), "overhead": round(seconds * jobs / spent - 1, 3)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="of every run")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(jobs, options.steps, Path(folder)) for jobs in (1, cores())]
    print(markdown_table(list(rows[0]), [[str(value) for value in row.values()] for row in rows]))
    if options.json:
        results = {"processor": platform.processor() or platform.machine(), "steps": options.steps, "studies": rows}
        atomic_write(options.json, json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
