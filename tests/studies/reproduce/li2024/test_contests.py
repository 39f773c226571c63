"""The trained items of Li et al. 2024 on made-up contests: worlds in which a claim holds, fails or drowns in noise."""

import math
import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hypersphere.studies.compare.cells import UNTRAINED, Plan
from hypersphere.studies.compare.views import QUANTILES, STEPS, TEMPERATURES
from hypersphere.studies.reproduce.catalogue import ITEMS, list_items
from hypersphere.studies.reproduce.contest import contests
from hypersphere.studies.reproduce.items import find, write
from hypersphere.studies.reproduce.li2024.published import STAGE_SCORES, STAGES, STS, TRANSFER
from hypersphere.studies.reproduce.li2024.readings import trained_score, trend
from hypersphere.studies.reproduce.li2024.search import Trial, effects_of, trials_of
from tests.studies.reproduce import fabricated

MINE = [name for name in list_items("li2024") if ITEMS[name].contests]
OWN = {"dissipation": ("margin", 0.3), "weight": ("temperature", 0.05), "ratio": ("value", 1.0)}
BINS = 40


@pytest.fixture(scope="module", autouse=True)
def one_learning_rate():
    """The searches without a range of learning rates: with one, five trials cannot tell the settings apart."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("li-search", "li-search-second"):
            contest = contests()[name]
            patch.setitem(contests(), name, replace(contest, small={**contest.small, "tune": {}}))
        patch.setattr(fabricated, "Plan", planned)
        yield


class KnownPlan(Plan):
    """Reads the recipe of a cell once, however many worlds ask for it."""

    def given(self, objective):
        known = self.__dict__.setdefault("known", {})
        if str(objective) not in known:
            known[str(objective)] = super().given(objective)
        return known[str(objective)]


PLANS = {}


def planned(study):
    key = repr(study)
    if key not in PLANS:
        PLANS[key] = KnownPlan(study)
    return PLANS[key]


def setting(cell, part):
    """A component of the paradigm, as a number; no gate is a margin of 2."""
    given = cell.recipe.objective.get(part)
    if given == "none" or (isinstance(given, dict) and given["name"] == "none"):
        return 2.0
    key, default = OWN[part]
    return given[key] if isinstance(given, dict) else default


def histogram(centre, spread):
    edges = [-1 + 2 * place / BINS for place in range(BINS)]
    mass = [math.exp(-(((edge + 1 / BINS) - centre) ** 2) / (2 * spread**2)) for edge in edges]
    return [each / sum(mass) for each in mass]


def views(positive, negative, hardest=0.9):
    """Views whose hardest share falls from ``hardest`` at τ = 0.01 to even shares."""
    return {
        "positive": histogram(positive, 0.08), "negative": histogram(negative, 0.12),
        "hardest": {f"{tau:g}": hardest / (1 + (tau / 0.06) ** 2) + 1 / 127 for tau in TEMPERATURES},
        "lemma1": {f"{step:g}": {"quantiles": [0.4 + 0.2 * k + step / 5 for k in range(len(QUANTILES))], "exists": 1.0}
                   for step in STEPS},
        "wasserstein": 0.1, "effective_rank": 50.0,
    }  # fmt: skip


def measurement(step, positive, negative, ratio=1.0, spread=1.0):
    return {
        "step": step, "positive_cosine": positive, "negative_cosine": negative, "positive_spread": 0.05,
        "negative_spread": 0.1, "positive_angle": math.acos(positive), "negative_angle": math.acos(negative),
        "positive_angle_spread": 0.06 * spread, "negative_angle_spread": 0.11 * spread, "ratio": ratio, "lemma1": 0.9,
        "with_gradient": 0.7, "hardest_gap": 0.2,
    }  # fmt: skip


def sweeps(sign=1.0, noise=0.0, scale="small", **changed):
    """Scores, cosines and ratios that follow the claims (sign 1), their opposite (-1) or nothing but noise (0)."""
    draw = random.Random(1)

    def make(cell):
        m, tau, r = (setting(cell, part) for part in OWN)
        jitter = draw.gauss(0, 1) * noise + 0.001 * cell.seed
        if cell.objective == UNTRAINED:
            run = fabricated.result(30.0, "stsb_dev", stsb_dev=30.0, stsb_test=28.0)
            return {**run, "views": views(0.8, 0.6, 0.9 if sign > 0 else 0.3)}
        sharp = 8.0 / (1 + (0.4 / tau) ** 3)
        run = fabricated.result(48 + sign * (-4 * m - sharp + 2 * r) + jitter, "stsb_dev", stsb_test=45.0)
        positive = min(0.99, 0.8 + 0.05 * sign * (r - 1) + 0.02 * jitter)
        negative = 0.35 - 0.1 * sign * (m - 0.3) + 0.02 * jitter
        ratio = 1 + 0.4 * sign + 0.2 * jitter if cell.objective in ("arccon", "met") else r
        outside = 1.0 if sign > 0 else 4.0
        run["measured"] = [measurement(step, positive, negative, ratio, changed.get("spread", outside))
                           for step in (0, 20, 40)]  # fmt: skip
        run["views"] = views(positive, negative, 0.9 if sign > 0 else 0.3)
        return run

    return {"li-sweeps": fabricated.held("li-sweeps", make, scale)}


def stages(sign=1.0, noise=0.0, transfer=0.2, scale="small", sets=True):
    """Published averages where the claims hold; reversed around InfoNCE where they do not."""
    draw = random.Random(2)
    published = {"infonce": 76.25, "arccon": 77.25, "mpt": 77.25, "met": 78.38, UNTRAINED: 40.0}

    def make(cell):
        jitter = draw.gauss(0, 1) * noise + 0.001 * cell.seed
        loss, _, stage = cell.objective.partition(" stage=")
        place = [each.lower() for each in STAGES].index(stage) if stage else -1
        value = published[loss] if loss in published else STAGE_SCORES[loss][place]
        value = 76.25 + sign * (value - 76.25) + jitter
        accuracy = 85.0 + (transfer if not stage else 0.0) + jitter
        scores = {"stsb_test": value}
        if sets:
            scores |= dict.fromkeys((*STS, "sts_average"), value) | dict.fromkeys(
                (*TRANSFER, "transfer_average"), accuracy
            )
        return fabricated.result(value, "stsb_dev", **scores)

    return {"li-stages": fabricated.held("li-stages", make, scale)}


PRINTED = {
    "li-search": {"mmhe": (0.3, 0.05, 1.75), "mmhs": (0.3, None, 1.75), "mbarlow": (0.3, 0.05, 1.5),
                  "mvicreg": (0.3, 0.05, 1.5)},
    "li-search-second": {"mmhe": (0.3, 0.05, 1.25), "mmhs": (0.27, None, 1.0), "mbarlow": (0.37, 0.05, 1.25),
                         "mvicreg": (0.37, 0.05, 1.25)},
}  # fmt: skip
DEFAULTS = {"margin": 0.3, "temperature": 0.05}


def search(name, sign=1.0, noise=0.0, scale="small"):
    """Every published value adds two points."""
    draw = random.Random(5)

    def make(cell):
        if cell.objective == UNTRAINED:
            return fabricated.result(30.0, "stsb_dev", stsb_test=28.0)
        given = {**DEFAULTS, "ratio": 1.75 if "mh" in cell.objective else 1.5, **cell.recipe.objective}
        wanted = PRINTED[name][cell.objective]
        same = sum(given[key] == value for key, value in zip(("margin", "temperature", "ratio"), wanted, strict=True))
        value = 45 + sign * 2 * same + draw.gauss(0, 1) * noise + 0.01 * len(cell.objective)
        return fabricated.result(value, "stsb_dev", stsb_test=value - 2)

    return {name: fabricated.held(name, make, scale)}


@cache
def world(contest, kind):
    """A contest in which the claims hold, do not, or cannot be seen for noise."""
    sign, noise = {"holds": (1.0, 0.0), "fails": (-1.0, 0.0), "noise": (0.0, 3.0)}[kind]
    if contest == "li-sweeps":
        return sweeps(sign, noise)
    if contest == "li-stages":
        return stages(sign, noise, transfer={"holds": 0.2, "fails": 4.0, "noise": 0.0}[kind])
    return search(contest, sign, noise)


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


def test_shares_and_angles_at_their_bounds_are_undecided():
    contests = sweeps()
    for row in contests["li-sweeps"].comparison.rows:
        for place, run in enumerate(row.runs):
            shares = run.result["views"]["hardest"]
            shares |= {"0.01": 0.5 + (0.2, -0.2, 0.05)[place], "0.1": 0.1, "0.3": 0.05 + (0.02, -0.02, 0.001)[place]}
            for each in run.result["measured"]:
                each["positive_angle_spread"] = 0.1 + (0.05, -0.05, 0.01)[place]
    assert find("li2024/fig7")(contests).verdict == "undecided"
    assert find("li2024/fig9")(contests).verdict == "undecided"


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


def test_missing_rows_leave_clauses_open():
    held = stages()
    contest = held["li-stages"]
    kept = [row for row in contest.comparison.rows if "stage=+w" not in row.objective]
    held = {"li-stages": replace(contest, comparison=replace(contest.comparison, rows=kept))}
    finding = find("li2024/table5")(held)
    assert finding.clauses["MHS: each stage is above the one before"] is True
    assert finding.clauses["MHE: each stage is above the one before"] is None


def test_without_the_seven_sets_table_3_reads_stsb():
    finding = find("li2024/table3")(stages(sets=False))
    assert finding.verdict == "agrees" and "STS-B test (the seven sets were not evaluated)" in finding.measured
    assert find("li2024/table4")(stages(sets=False)).verdict == "undecided"


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


def test_the_weights_as_given_do_not_count_as_trained():
    held = sweeps()["li-sweeps"]
    row = held.comparison.rows[1]
    run = row.runs[0]
    run.result["history"] = {"0": {"stsb_dev": 60.0}, "40": {"stsb_dev": 20.0}}
    run.result["best_step"] = 0
    assert trained_score(row)[run.seed] == 20.0
    finding = find("li2024/fig7")({"li-sweeps": held})
    assert {line["seeds"] for line in finding.data["shares"] if line["encoder"] == "the trained encoder"} == {2}


def test_a_constant_sweep_has_no_trend():
    assert trend([{1: 2.0}, {1: 2.0}, {1: 2.0}]) == {1: 0.0}


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
