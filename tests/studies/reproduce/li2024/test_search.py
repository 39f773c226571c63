"""Tables 6 and 7: effects of settings that were tried together, and the search in two stages."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from hypersphere.studies.compare.cells import Plan
from hypersphere.studies.reproduce.contest import contests
from hypersphere.studies.reproduce.items import find
from hypersphere.studies.reproduce.li2024.search import Trial, effects_of, trials_of
from tests.studies.reproduce.li2024.worlds import (
    search,
)


def test_effects_hold_the_other_settings():
    """Margins, temperatures, ratios and rates tried together: each has its own part."""
    printed = {"margin": 0.3, "temperature": 0.05, "ratio": 1.5}
    tried = [(0.3, 0.05, 1.5, 5e-5), (0.3, 0.01, 1.0, 2e-5), (0.27, 0.05, 1.5, 2e-5), (0.37, 0.03, 1.5, 1e-5),
             (0.33, 0.01, 2.0, 3e-5), (0.3, 0.03, 1.5, 1e-5), (0.33, 0.05, 1.0, 4e-5)]  # fmt: skip
    trials = [
        Trial(k, {"margin": m, "temperature": tau, "ratio": r, "learning rate": rate, "batch size": 64},
              40 + (m == 0.3) - 2 * (tau == 0.05) + 3 * (r == 1.5) + 5 * math.log(rate))
        for k, (m, tau, r, rate) in enumerate(tried)
    ]  # fmt: skip
    assert effects_of(trials, printed) == pytest.approx({"margin": 1.0, "temperature": -2.0, "ratio": 3.0})
    assert effects_of(trials[:5], printed) == {}  # as many unknowns as trials


def test_a_search_in_which_the_rate_varies_as_well_is_not_judged(monkeypatch):
    """Five trials, and five unknowns with the learning rate."""
    contest = contests()["li-search"]
    rates = {"optimizer.lr": [1e-5, 1e-4]}
    monkeypatch.setitem(contests(), "li-search", replace(contest, small={**contest.small, "tune": rates, "trials": 5}))
    held = search("li-search")
    trials = trials_of(held["li-search"])["mmhe"]
    assert len(trials) == 5 and len({trial.settings["learning rate"] for trial in trials}) == 5
    finding = find("li2024/table6")(held)
    assert set(finding.clauses.values()) == {None} and "not to be told from the others" in finding.measured


@pytest.mark.parametrize("name", ["li-search", "li-search-second"])
def test_the_full_scale_searches_in_the_papers_two_stages(name):
    """16 settings of batch size and learning rate at m .3, τ .05, r 1; then 4 margins × 3 temperatures × 5 ratios."""
    plan = Plan(contests()[name].at("full", Path("nowhere")))
    losses = {each["name"]: each for each in plan.study.objectives}
    assert {loss: plan.trials(each) for loss, each in losses.items()} == {
        "mmhe": 76, "mmhs": 16 + 20, "mbarlow": 76, "mvicreg": 76,
    }  # fmt: skip
    first = plan.stage(losses["mmhe"], 0, {})
    held = {(each.recipe.objective["margin"], each.recipe.objective["temperature"], each.recipe.objective["ratio"])
            for each in first}  # fmt: skip
    assert held == {(0.3, 0.05, 1.0)} and len({(c.recipe.batch.size, c.recipe.optimizer.lr) for c in first}) == 16
    second = plan.stage(losses["mmhe"], 1, first[5].settings)
    assert {(c.recipe.batch.size, c.recipe.optimizer.lr) for c in second} == {(128, 1e-5)} and len(second) == 60
    assert first[5].id in {cell.id for cell in second}  # the winner is one of the second stage's points
