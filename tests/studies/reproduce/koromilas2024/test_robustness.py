"""Best and worst accuracy: runs that failed."""

from __future__ import annotations

from typing import Any

from hypersphere.studies.compare.results import Run
from hypersphere.studies.reproduce.koromilas2024.robustness import robustness
from tests.studies.reproduce.koromilas2024.worlds import (
    CLAIMED,
    run,
    world,
)


def test_a_run_that_failed_counts_as_chance_in_the_spread() -> None:
    make = world(CLAIMED, 0.1)

    def diverging(run: Run) -> dict[str, Any] | str:
        return "the loss is not finite" if run.contestant.startswith("dhel temperature=0.07") else make(run)

    finding = run(robustness, diverging)
    assert finding.clauses["DHEL has a smaller best-to-worst spread than SimCLR"] is False
    assert finding.clauses["KCL has a smaller best-to-worst spread than SimCLR"] is True
    assert "10.0 at (0.07, " in finding.fault
