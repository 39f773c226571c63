"""The set-ups of one peer, measured by an interpreter that has it: ``python -m hypersphere.studies.parity.worker``.

Its arguments are the peer and a JSON list of numbers of processes. It prints one JSON document: the peer's version, and
for every set-up and number of processes the differences, or why they could not be measured.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from typing import Any

import torch

from hypersphere.messages import one_line
from hypersphere.studies.parity.measure import measure
from hypersphere.studies.parity.setups import PEERS


def results(peer: str, processes: list[int]) -> dict[str, Any]:
    rows = []
    for setup in PEERS[peer].setups:
        for count in processes:
            if count == 1 or setup.gathers:
                row: dict[str, Any] = {"case": setup.case, "options": setup.options, "processes": count}
                try:
                    row |= measure(setup, count)
                except Exception as error:  # a peer may raise anything
                    lines = str(error).strip().splitlines() or [type(error).__name__]
                    row["failed"] = one_line(lines[-1])
                rows.append(row)
    failed = {row.get("failed") for row in rows}
    if len(failed) == 1 and (why := failed.pop()):
        return {"failed": why}
    return {"version": version(peer), "torch": torch.__version__, "rows": rows}


def main() -> None:
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of a peer must not mix with the answer
    torch.set_num_threads(1)
    print(json.dumps(results(sys.argv[1], json.loads(sys.argv[2]))), file=channel, flush=True)


if __name__ == "__main__":
    main()
