"""The items, and docs/errata.md: it has every erratum that is cited, and cites only what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hypersphere as hs
from hypersphere.studies.reproduce.catalogue import ITEMS, cite, list_items, paper_of
from hypersphere.studies.reproduce.items import find

ROOT = Path(__file__).parents[3]


PAGE = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")


def test_every_erratum_that_the_code_cites_stands_on_the_page() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    cited = {number for path in sources for number in re.findall(r"\bE\d{1,2}\b", path.read_text(encoding="utf-8"))}
    assert {"E2", "E5", "E10"} <= cited
    assert cited <= set(re.findall(r"^## (E\d+)$", PAGE, re.MULTILINE))


def test_an_erratum_has_its_four_parts() -> None:
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        if re.match(r"E\d", section):
            marks = re.findall(r"^- \*\*(.*?)\*\*", section, re.MULTILINE)
            assert marks == ["Printed", "Right", "Checked", "Printed form"], section


@pytest.mark.parametrize("words", sorted(set(re.findall(r"`(\w+)\((\w+)=\"(\w+)\"\)`", PAGE))), ids="-".join)
def test_the_printed_forms_can_be_created(words: tuple[str, str, str]) -> None:
    name, setting, value = words
    hs.create_objective(name, **{setting: value})


def test_items_and_tests_on_the_page_exist() -> None:
    assert set(re.findall(r"`hypersphere reproduce ([^`]+)`", PAGE)) <= set(ITEMS)
    defined = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    for test in re.findall(r"`(test_\w+)`", PAGE):
        assert f"def {test}(" in defined


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_has_its_paper_and_its_function(name: str) -> None:
    assert name in list_items(paper_of(name)) and cite(name).endswith(ITEMS[name].place)
    assert callable(find(name))
