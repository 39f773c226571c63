"""The angle simulation beside a plain numpy loop over the grid: ``python -m benchmarks.angles [--points 100]``.

The loop is the obvious version: at every grid point it draws the angles, computes InfoNCE's dissipation and averages.
Both are timed in this run. The loop runs on every tenth point only, since it is linear in the number of points.
"""

from __future__ import annotations

import json
import re
import sys
import time
from math import pi
from pathlib import Path

import numpy as np
import torch

from hypersphere.anatomy import AngleGrid, simulate
from hypersphere.report import atomic_write
from hypersphere.studies.arguments import Arguments, run_command, whole_number

RESULT = Path(__file__).parent / "results" / "angles.json"


def numpy_loop(grid: AngleGrid, every: int, temperature: float = 0.05) -> tuple[float, int]:
    """Seconds for every ``every``-th point of the grid, and the number of these points."""
    draw = np.random.default_rng(grid.seed)
    points = [
        (positive, negative)
        for positive in np.linspace(pi / 20, pi / 2, grid.points)
        for negative in np.linspace(pi / 20, pi, grid.points)
    ][::every]
    start = time.perf_counter()
    for positive, negative in points:
        own = np.exp(np.cos(draw.normal(positive, grid.positive_spread, grid.batches)) / temperature)
        others = draw.normal(negative, grid.negative_spread, (grid.batches, grid.negatives))
        powers = np.exp(np.cos(others) / temperature).sum(axis=1)
        (powers / (own + powers)).mean()
    return time.perf_counter() - start, len(points)


def peak_megabytes() -> float:
    match = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"))
    return int(match.group(1)) / 1024 if match else float("nan")


def main(arguments: list[str]) -> int:
    parser = Arguments(prog="python -m benchmarks.angles", description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=whole_number(2), default=100, help="points of the grid in each direction")
    options = parser.parse_args(arguments)
    torch.set_num_threads(2)
    grid = AngleGrid(points=options.points)
    simulate("infonce", AngleGrid(points=2))
    start = time.perf_counter()
    simulate("infonce", grid, progress=lambda done, total: print(f"\r{done}/{total}", end="", file=sys.stderr))
    ours = time.perf_counter() - start
    print(file=sys.stderr)
    memory = peak_megabytes()
    seconds, points = numpy_loop(grid, every=10)
    loop = seconds * grid.points**2 / points
    results = {
        "angles": grid.angles,
        "seconds": ours,
        "peak_megabytes_of_the_process": memory,
        "numpy_loop_seconds": loop,
        "numpy_points_timed": points,
        "loop_over_ours": loop / ours,
    }
    print(json.dumps(results, indent=1))
    if options.points == AngleGrid().points:
        atomic_write(RESULT, json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    run_command(lambda: main(sys.argv[1:]))
