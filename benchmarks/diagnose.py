"""The check-up of a million rows of 768 from a mapped file: ``python -m benchmarks.diagnose [--rows N] [--dims D]``.

Each size runs in a process of its own. Memory is the rise of the process's own memory (RssAnon) to its peak: pages of
the mapped file are the input and not counted. A quarter of the rows is run too, so that the time per row at both sizes
shows whether the cost is linear. Time is processor time, since others may share the machine. Needs Linux, and room for
the file (3 GB).
"""

from __future__ import annotations

import json
import multiprocessing
import queue
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hypersphere.diagnostics import diagnose
from hypersphere.report import atomic_write
from hypersphere.studies.arguments import Arguments, run_command, whole_number

RESULT = Path(__file__).parent / "results" / "diagnose.json"
FULL = (1_000_000, 768)


def write_rows(path: Path, rows: int, dims: int) -> None:
    """Correlated Gaussian rows with a mean, a block at a time, float32."""
    draw = np.random.default_rng(0)
    mixing = (draw.normal(size=(dims, dims)) / np.sqrt(dims)).astype(np.float32)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, dims))
    for start in range(0, rows, 16384):
        size = min(16384, rows - start)
        file[start : start + size] = draw.standard_normal((size, dims), dtype=np.float32) @ mixing + 0.1
    file.flush()


def own_megabytes() -> float:
    match = re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text(encoding="utf-8"))
    return int(match.group(1)) / 1024 if match else float("nan")


def measure(path: Path, threads: int, answer: Any) -> None:
    """Seconds and peak of own memory of one check-up, in this process."""
    torch.set_num_threads(threads)
    rows = np.load(path, mmap_mode="r")
    before = own_megabytes()
    peak, stop = [before], threading.Event()

    def watch() -> None:
        while not stop.wait(0.005):
            peak[0] = max(peak[0], own_megabytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start, used = time.perf_counter(), time.process_time()
    diagnosis = diagnose(rows, progress=lambda done, total: print(f"\r{done:,}/{total:,}", end="", file=sys.stderr))
    seconds, used = time.perf_counter() - start, time.process_time() - used
    stop.set()
    watcher.join()
    print(file=sys.stderr)
    answer.put({
        "rows": diagnosis.rows,
        "dims": diagnosis.dims,
        "sample": diagnosis.sampling.sample,
        "threads": threads,
        "seconds": round(seconds, 2),
        "processor_seconds": round(used, 2),
        "processor_microseconds_per_row": round(used / diagnosis.rows * 1e6, 2),
        "megabytes_above_the_input": round(peak[0] - before, 1),
        "megabytes_of_the_input": round(rows.nbytes / 1e6, 1),
        "verdict": diagnosis.verdict,
    })  # fmt: skip


def _answer(process: Any, answer: Any) -> Any:
    """The measurement of the process; the wait ends if the process dies."""
    while True:
        alive = process.is_alive()
        try:
            return answer.get(timeout=1)
        except queue.Empty:
            if not alive:
                raise SystemExit(f"the measuring process ended with {process.exitcode} and no answer") from None


def main(arguments: list[str]) -> int:
    parser = Arguments(prog="python -m benchmarks.diagnose", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=whole_number(8), default=FULL[0], help="rows of the file")
    parser.add_argument("--dims", type=whole_number(2), default=FULL[1], help="dimensions")
    parser.add_argument("--threads", type=whole_number(1), default=2, help="threads torch may use")
    options = parser.parse_args(arguments)
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in (options.rows // 4, options.rows):
            path = Path(folder) / f"{rows}.npy"
            write_rows(path, rows, options.dims)
            context = multiprocessing.get_context("spawn")
            answer = context.Queue()
            process = context.Process(target=measure, args=(path, options.threads, answer))
            process.start()
            answers.append(_answer(process, answer))
            process.join()
            path.unlink()
    print(json.dumps(answers, indent=1))
    if (options.rows, options.dims) == FULL:
        atomic_write(RESULT, json.dumps(answers, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    run_command(lambda: main(sys.argv[1:]))
