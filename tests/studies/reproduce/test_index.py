"""The list of items is what the results say."""

import re
from pathlib import Path

from hypersphere.studies.reproduce.catalogue import ITEMS
from hypersphere.studies.reproduce.index import NOT_RUN, index

RESULTS = Path(__file__).parents[3] / "results"


def test_the_list_has_every_item_and_is_what_the_results_say():
    page = index(RESULTS)
    assert (RESULTS / "README.md").read_text(encoding="utf-8") == page
    for name in ITEMS:
        assert f"[{name}]({name}/finding.md)" in page or re.search(rf"\| {name} +\|", page)
    assert page.count(NOT_RUN) == sum(not (RESULTS / name / "results.json").is_file() for name in ITEMS)
