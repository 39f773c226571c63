"""The trained items of Li et al. 2024 on made-up contests."""

from functools import cache

import pytest

from hypersphere.studies.reproduce.catalogue import ITEMS, list_items
from hypersphere.studies.reproduce.items import find, write
from tests.studies.reproduce import fabricated
from tests.studies.reproduce.li2024.worlds import search, stages, sweeps, world

MINE = [name for name in list_items("li2024") if ITEMS[name].contests]


@pytest.mark.parametrize("item", MINE)
def test_a_world_in_which_the_claim_holds_agrees(item):
    finding = find(item)(world(ITEMS[item].contests[0], "holds"))
    assert finding.verdict == "agrees", finding.clauses
    assert not finding.fault


@pytest.mark.parametrize("item", MINE)
def test_a_world_in_which_it_does_not_disagrees(item):
    finding = find(item)(world(ITEMS[item].contests[0], "fails"))
    assert finding.verdict in ("does not agree", "partly"), finding.clauses
    assert "scale" in finding.fault.lower() and "Not the implementation" in finding.fault


@pytest.mark.parametrize("item", [name for name in MINE if name not in ("li2024/fig7", "li2024/fig9")])
def test_noise_is_undecided(item):
    finding = find(item)(world(ITEMS[item].contests[0], "noise"))
    assert finding.verdict == "undecided", finding.clauses


@cache
def tiny(contest):
    """One seed, and no set but STS-B."""
    if contest == "li-sweeps":
        return sweeps(scale="tiny")
    return stages(scale="tiny", sets=False) if contest == "li-stages" else search(contest, scale="tiny")


@pytest.mark.parametrize("item", MINE)
def test_one_seed_and_no_sets_decide_nothing(item):
    finding = find(item)(tiny(ITEMS[item].contests[0]))
    assert finding.verdict == "undecided" and set(finding.clauses.values()) == {None}
    assert all(rows for rows in finding.data.values()) and len(finding.figures) == 1


@pytest.mark.parametrize("item", ["li2024/fig8", "li2024/table6"])
def test_an_item_is_written_with_text_data_and_figure(item, tmp_path):
    held = tiny(ITEMS[item].contests[0])
    _, folder = write(item, find(item)(held), tmp_path, quick=True, held=held)
    assert {path.suffix for path in folder.iterdir()} == {".md", ".csv", ".json", ".png", ".pdf"}


@cache
def failures(contest):
    return {contest: fabricated.held(contest, lambda cell: "out of memory")}


@pytest.mark.parametrize("item", MINE)
def test_a_contest_of_failures_is_no_error(item):
    finding = find(item)(failures(ITEMS[item].contests[0]))
    assert set(finding.clauses.values()) == {None}
    assert "not measured" in finding.here
