"""Every trained item of Nie et al. 2023 on contests that are incomplete."""

import pytest

from hypersphere.studies.reproduce.catalogue import ITEMS
from hypersphere.studies.reproduce.items import as_csv, find, page
from tests.studies.reproduce.nie2023.worlds import both_contests, curves, finished


def every_item(make, scale):
    held = both_contests(make, scale)
    names = [name for name, item in ITEMS.items() if name.startswith("nie2023/") and item.contests]
    return {name: find(name)({each: held[each] for each in ITEMS[name].contests}) for name in names}, held


@pytest.mark.parametrize("world", ["tiny", "failed", "some failed"])
def test_items_work_on_contests_that_are_incomplete(world):
    def make(cell):
        if world == "failed" or (world == "some failed" and cell.objective in ("dcl", "mpt", "mpt margin=0.23")):
            return "the process ended with exit code 1"
        pairs = [each for each in curves(cell, size=0.1) if each["step"] in (0, 40)]
        return finished(cell, pairs=pairs, gaps=(0.1,), stsb_test=40.0)

    findings, held = every_item(make, "tiny" if world == "tiny" else "small")
    for name, finding in findings.items():
        assert finding.verdict == "undecided", (name, finding.clauses)
        text = page(name, finding, held={each: held[each] for each in ITEMS[name].contests})
        assert "nan" not in text.replace("finding", "") and "None" not in text
        assert all(as_csv(rows) for rows in finding.data.values())
        assert finding.figures
        for figure in finding.figures.values() if world == "some failed" else ():
            figure.draw_without_rendering()
