"""Table 5 and Figure 1: stages that are missing, exchanged, or fall."""

from dataclasses import replace

import pytest

from hypersphere.studies.reproduce.items import find
from tests.studies.reproduce.li2024.worlds import stages


def test_missing_rows_leave_clauses_open():
    held = stages()
    contest = held["li-stages"]
    kept = [row for row in contest.comparison.rows if "stage=+w" not in row.objective]
    held = {"li-stages": replace(contest, comparison=replace(contest.comparison, rows=kept))}
    finding = find("li2024/table5")(held)
    assert finding.clauses["MHS: each stage is above the one before"] is True
    assert finding.clauses["MHE: each stage is above the one before"] is None


def test_table_5_has_barlow_and_vicreg_as_table_3_has_them():
    finding = find("li2024/table5")(stages())
    ends = {line["loss"]: line["published"] for line in finding.data["table5"] if line["stage"] == "+R"}
    assert (ends["Barlow Twins"], ends["VICReg"]) == (78.24, 78.34) and "E9" in finding.errata
    assert all(line["here"] == pytest.approx(line["published"], abs=0.1) for line in finding.data["table5"])


def test_a_single_stage_that_falls_is_seen():
    held = stages()
    row = next(row for row in held["li-stages"].comparison.rows if row.objective == "mvicreg")
    for run in row.runs:
        run.result["scores"]["sts_average"] -= 2
    finding = find("li2024/table5")(held)
    assert finding.verdict == "partly"
    assert [clause for clause, holds in finding.clauses.items() if holds is False] == [
        "VICReg: each stage is above the one before"
    ]
