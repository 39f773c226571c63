"""Nie et al. 2023 from contests that were never held: what holds in a made-up world is found, what does not is not."""

from functools import cache
from random import Random

import pytest

from hypersphere.studies.compare.cells import Cell, Plan
from hypersphere.studies.compare.study import Study
from hypersphere.studies.reproduce.catalogue import ITEMS
from hypersphere.studies.reproduce.contest import Held
from hypersphere.studies.reproduce.items import as_csv, find, page
from hypersphere.studies.reproduce.nie2023.contest import fig1, table1, table2
from hypersphere.studies.reproduce.nie2023.coordinates import Checkpoint, explained, neighbours
from hypersphere.studies.reproduce.nie2023.curves import find_row, kept, rises
from hypersphere.studies.reproduce.nie2023.margins import fig3, peaked, spread
from hypersphere.studies.reproduce.nie2023.scores import AVERAGES, STS, TRANSFER
from tests.studies.reproduce import fabricated

STEPS = (0, 10, 20, 30, 40)
FALL = {"infonce": (3.0, 2.0, 1.6, 1.5, 1.5), "alignment": (0.3, 0.4, 0.42, 0.42, 0.42),
        "uniformity": (-1.0, -1.6, -2.0, -2.1, -2.1)}  # fmt: skip
RISE = (0.0, 0.0, 0.0, 0.3, 0.7)  # added to a curve that overfits
OVERFIT = {"align_uniform": ("infonce", "uniformity"), "dcl": ("infonce", "alignment", "uniformity")}
STS_PUBLISHED = {"untrained": 30.0, "infonce": 50.0, "align_uniform": 46.0, "dcl": 45.5, "dcl_plus": 50.5, "mpt": 50.8,
                 "met": 51.0, "mat": 50.4}  # fmt: skip
STS_REVERSED = {**STS_PUBLISHED, "align_uniform": 54.0, "dcl": 55.0, "dcl_plus": 48.0, "mpt": 47.0}
TRANSFER_PUBLISHED = {"untrained": 70.0, "infonce": 80.0, "align_uniform": 81.0, "dcl": 80.9, "dcl_plus": 80.3,
                      "mpt": 80.6, "met": 80.5, "mat": 80.4}  # fmt: skip
TRANSFER_REVERSED = {**TRANSFER_PUBLISHED, "align_uniform": 75.0, "dcl": 75.5, "mat": 74.0}


def noise(cell, what, size):
    return Random(f"{cell.objective} {cell.seed} {cell.trial} {what}").gauss(0, size)


def labelled(similarity, transfer):
    """Scores of a run on all sets, with one value for each average."""
    scores = {"stsb_test": similarity, **dict.fromkeys(STS, similarity), **dict.fromkeys(TRANSFER, transfer)}
    return {**scores, **dict(zip(AVERAGES, (similarity, transfer), strict=True))}


def curves(cell, overfits=(), size=0.0, shift=0.0, by_seed=0.0):
    """InfoNCE, alignment and uniformity on STS-B dev at each step; the named ones rise again."""
    place = shift + noise(cell, "place", by_seed)
    return [
        {"step": step,
         **{name: values[k] + place + noise(cell, f"{name} {step}", size) + (RISE[k] if name in overfits else 0.0)
            for name, values in FALL.items()}}
        for k, step in enumerate(STEPS if cell.objective != "untrained" else STEPS[:1])
    ]  # fmt: skip


def finished(cell: Cell, validation=50.0, pairs=(), gaps=(), score=None, **scores):
    """A run with its curves; ``score`` gives STS-B dev from a point of the curve."""
    result = fabricated.result(validation, "stsb_dev", 40, **scores)
    history = {str(each["step"]): {"stsb_dev": score(each) if score else validation} for each in pairs}
    measured = [{"step": step, "gap": gap, "with_gradient": 0.2} for step, gap in zip(STEPS, gaps, strict=False)]
    return {**result, "pairs": list(pairs), "training": list(pairs), "measured": measured,
            "history": history or result["history"]}  # fmt: skip


@cache
def _plan(definition):
    return Plan(Study.model_validate_json(definition))


@pytest.fixture(autouse=True)
def plans_are_made_once(monkeypatch):
    """A plan reads its recipe hundreds of times."""
    monkeypatch.setattr(fabricated, "Plan", lambda study: _plan(study.model_dump_json()))


def contest(name, make, scale="small") -> dict[str, Held]:
    return {name: fabricated.held(name, make, scale)}


def both_contests(make, scale="small") -> dict[str, Held]:
    """The tuned objectives, and the longer runs over margins beside other objectives."""
    return {**contest("nie-objectives", make, scale), **contest("nie-margins", make, scale)}


# --- Table 1


def objectives(sts, transfer, size=0.1, names=None):
    def make(cell):
        values = labelled(sts[cell.objective] + noise(cell, "sts", size),
                          transfer[cell.objective] + noise(cell, "transfer", size))  # fmt: skip
        shown = {name: value for name, value in values.items() if names is None or name in names}
        return finished(cell, gaps=(0.1,), **shown)

    return contest("nie-objectives", make)


def test_table1_agrees_where_the_published_order_holds():
    finding = table1(objectives(STS_PUBLISHED, TRANSFER_PUBLISHED))
    assert finding.verdict == "agrees", finding.clauses
    assert not finding.fault and "DCL+ − DCL +4.8" in finding.here


def test_table1_does_not_agree_where_the_order_is_reversed():
    finding = table1(objectives(STS_REVERSED, TRANSFER_REVERSED))
    assert finding.verdict == "does not agree" and set(finding.clauses.values()) == {False}
    assert finding.fault.startswith("Claim") and "L_mpt 20%" in finding.fault


@pytest.mark.parametrize("overfits", [(), ("infonce",)])
def test_table1_blames_the_scale_where_the_decoupled_losses_never_overfit(overfits):
    def make(cell):
        pairs = [{**each, "infonce": each["infonce"] - each["step"] / 1000} for each in curves(cell, overfits)]
        shown = labelled(STS_REVERSED[cell.objective] + noise(cell, "sts", 0.1), TRANSFER_REVERSED[cell.objective])
        return finished(cell, pairs=pairs, gaps=(0.1,), **shown)

    fault = table1(contest("nie-objectives", make)).fault
    assert fault.startswith("Claim" if overfits else "Scale: in 6 of 6 runs"), fault
    assert ("6 of 6 runs with L_a&u or L_dcl overfit" in fault) == bool(overfits)


def test_table1_agrees_partly_where_the_gain_is_too_small():
    finding = table1(objectives({**STS_PUBLISHED, "dcl": 49.0, "align_uniform": 49.0}, TRANSFER_PUBLISHED))
    assert finding.verdict == "partly"
    assert [clause for clause, holds in finding.clauses.items() if holds is False] == ["similarity: by 3 to 7 points"]


def test_table1_is_undecided_in_noise():
    equal = dict.fromkeys(STS_PUBLISHED, 50.0)
    finding = table1(objectives(equal, equal, size=4.0))
    assert finding.verdict == "undecided" and set(finding.clauses.values()) == {None}


def test_table1_takes_stsb_where_the_seven_sets_are_missing():
    finding = table1(objectives(STS_PUBLISHED, TRANSFER_PUBLISHED, names=("stsb_test",)))
    assert finding.verdict == "undecided"
    assert "STS-B test stands for their average" in finding.measured and "(STS-B test)" in finding.here
    assert finding.clauses["similarity: by 3 to 7 points"] is True


def test_table1_blames_scale_where_training_does_not_help():
    finding = table1(objectives({**STS_REVERSED, "untrained": 60.0}, TRANSFER_REVERSED))
    assert finding.fault.startswith("Scale")


# --- Table 2


def tried(best, size=0.05, grad=3000.0):
    """A full-scale contest whose score falls with the squared distance of the margin from its best value."""

    def make(cell):
        objective = cell.recipe.create_objective()
        away = objective.margin - best[cell.objective] if cell.objective in best else 0.0
        return finished(cell, 50.0 - grad * away**2 + noise(cell, "dev", size))

    return contest("nie-objectives", make, "full")


def test_table2_finds_the_published_margins():
    finding = table2(tried({"mpt": 0.23, "met": 0.44}))
    assert finding.verdict == "agrees", (finding.clauses, finding.measured)
    assert finding.here == "MPT m = 0.229, MET m = 0.435"


def test_table2_does_not_agree_where_the_best_margins_are_at_the_ends():
    finding = table2(tried({"mpt": 0.35, "met": 0.5}))
    assert finding.verdict == "does not agree" and finding.fault.startswith("Claim")
    ends = {row["objective"]: row["at the end"] for row in finding.data["settings"] if row["setting"] == "margin"}
    assert ends["L_mpt"] == ends["L_met"] == "upper"


def test_table2_is_undecided_where_seeds_matter_more_than_settings():
    finding = table2(tried({}, size=3.0))
    assert finding.verdict == "undecided" and set(finding.clauses.values()) == {None}
    assert "trials not told apart" in finding.here


def test_table2_does_not_compare_trials_of_other_learning_rates():
    """In the small contest the three trials of an objective differ in their learning rates by more than a factor."""

    def make(cell):
        return finished(cell, 50.0 - 1e6 * abs(cell.recipe.optimizer.lr - 5e-5) + noise(cell, "dev", 0.01))

    assert table2(contest("nie-objectives", make)).verdict == "undecided"


# --- Figure 1


def spoken(cell):
    return list(STS_PUBLISHED).index(cell.objective.partition(" ")[0])  # without a margin


def test_fig1_agrees_where_quality_is_not_in_the_coordinates():
    def make(cell):
        pairs = curves(cell, OVERFIT.get(cell.objective, ()), 0.005)
        own = (40.0, 47.0, 35.0, 52.0, 44.0, 31.0, 50.0, 38.0)[spoken(cell)]
        return finished(cell, pairs=pairs, score=lambda _: own + noise(cell, "dev", 0.1))

    finding = fig1(both_contests(make))
    assert finding.verdict == "agrees", (finding.clauses, finding.measured)
    assert "rises again by 0.6" in finding.here  # RISE, less the noise


def test_fig1_does_not_agree_where_the_coordinates_decide_and_infonce_overfits():
    def make(cell):
        overfits = ("infonce", "uniformity") if cell.objective == "infonce" else ()
        pairs = curves(cell, overfits, 0.005, 0.3 * spoken(cell), by_seed=0.1)
        pairs = [{**each, "alignment": each["alignment"] + (0.1 * each["step"] / 40 if spoken(cell) == 2 else 0)}
                 for each in pairs]  # fmt: skip
        return finished(cell, pairs=pairs, score=lambda each: 30 - 10 * each["uniformity"] - 5 * each["alignment"])

    finding = fig1(both_contests(make))
    assert finding.verdict == "does not agree", (finding.clauses, finding.measured)
    assert "explain 100%" in finding.fault and "b to d:" in finding.fault


@pytest.mark.parametrize("overfitting", ["nie-objectives", "nie-margins"])
def test_who_overfits_is_read_from_the_longer_runs(overfitting):
    def make(name):
        return lambda cell: finished(
            cell, pairs=curves(cell, OVERFIT.get(cell.objective, ()) if name == overfitting else (), 0.005)
        )

    names = "nie-objectives", "nie-margins"
    clauses = fig1({name: fabricated.held(name, make(name), "small") for name in names}).clauses
    rises_again = clauses["d: with L_dcl, all three rise again by more than with L_cl"]
    assert (rises_again is True) == (overfitting == "nie-margins")


def test_fig1_is_undecided_in_noise():
    def make(cell):
        pairs = curves(cell, size=0.4)
        return finished(cell, pairs=pairs, score=lambda each: 40 + noise(cell, f"dev {each['step']}", 5.0))

    finding = fig1(both_contests(make))
    assert finding.verdict == "undecided", finding.clauses


def test_a_curve_with_one_evaluation_cannot_rise():
    def make(cell):
        return finished(cell, pairs=[each for each in curves(cell) if each["step"] in (0, 40)])

    held = both_contests(make)
    assert not rises(find_row(held["nie-margins"].comparison, "dcl"), "infonce")
    finding = fig1(held)
    assert all(holds is None for clause, holds in finding.clauses.items() if not clause.startswith("a"))
    assert "no curve can be seen to rise" in finding.measured


def spots(score):
    """Four objectives on a circle of coordinates, three seeds."""
    random = Random(0)
    for name in "abcd":
        for seed in (1, 2, 3):
            for step in (10, 20, 30):
                x, y = random.gauss(0, 1), random.gauss(0, 1)
                yield Checkpoint(name, f"{name}{seed}", "test", seed, step, x, y, score(name, x, y))


def test_a_quadratic_is_explained_by_squares_and_not_by_lines():
    where = list(spots(lambda name, x, y: x * x + y * y))
    linear, squared = explained(where, False), explained(where, True)
    assert squared.low > 0.9 and linear.high < 0.5


def test_what_depends_on_the_objective_alone_is_not_explained():
    explanation = explained(list(spots(lambda name, x, y: 10.0 * "abcd".index(name))), False)
    assert explanation.high < 0.5 and explanation.low <= explanation.r2 <= explanation.high


def test_neighbours_are_of_other_objectives_and_the_same_seed():
    points = [
        Checkpoint("a", "1", "test", 1, 40, 0.0, 0.0, 50.0),
        Checkpoint("b", "2", "test", 1, 40, 0.01, 0.0, 40.0),
        Checkpoint("b", "3", "test", 2, 40, 0.0, 0.0, 43.0),
        Checkpoint("c", "4", "test", 1, 40, 9.0, 9.0, 0.0),
    ]
    across, within = neighbours(points)
    assert across == {1: 10.0} and within == {1: 3.0, 2: 3.0}


# --- Figure 3

GAPS = {"mpt margin=0.05": 0.2, "mpt margin=0.1": 0.3, "mpt margin=0.23": 0.5, "mpt margin=0.4": 0.6,
        "mpt margin=0.8": 0.8, "infonce": 0.5, "align_uniform": 0.8, "dcl": 0.9, "dcl_plus": 0.5,
        "untrained": 0.1}  # fmt: skip
PEAKED = {"mpt margin=0.05": 44.0, "mpt margin=0.1": 47.0, "mpt margin=0.23": 51.0, "mpt margin=0.4": 49.0,
          "mpt margin=0.8": 46.0}  # fmt: skip


def margins(sts, flat=True, size=0.05, growing=("dcl",), overfits=("mpt margin=0.8", "dcl"), worse=("mpt margin=0.1",)):
    def make(cell):
        label, last = cell.objective, GAPS[cell.objective]
        shares = (0.2, 0.4, 0.5, 0.7, 1.0) if label in growing else (0.2, 0.8, 0.97, 0.99, 1.0)
        gaps = [last * share + noise(cell, f"gap {share}", size / 50) for share in shares]
        pairs = curves(cell, ("infonce",) if label in overfits else (), size / 10)
        pairs = [{**each, "uniformity": each["uniformity"] + 0.8 * (label in worse)} for each in pairs]
        score = sts.get(label, 48.0)
        transfer = 80.0 if flat else 80.0 + 3 * (score - 48.0)
        values = labelled(score + noise(cell, "sts", size), transfer + noise(cell, "tr", size))
        return finished(cell, pairs=pairs, gaps=gaps, **values)

    return make


def both(make):
    held = contest("nie-margins", make)
    return {**held, **objectives(STS_PUBLISHED, TRANSFER_PUBLISHED)}


def test_fig3_agrees_where_similarity_peaks_inside_and_dcl_keeps_growing():
    finding = fig3(both(margins(PEAKED)))
    assert finding.verdict == "agrees", (finding.clauses, finding.measured)
    assert finding.here.startswith("best m = 0.23 with 5")


def test_fig3_does_not_agree_where_everything_is_the_other_way_round():
    monotone = {label: 60.0 - 20 * gap for label, gap in GAPS.items()}
    make = margins(
        monotone, flat=False, growing=("infonce",), overfits=("mpt margin=0.23",), worse=("mpt margin=0.23",)
    )
    finding = fig3(both(make))
    holds = dict(finding.clauses)
    assert holds.pop("a: the largest margin leaves a larger gap than the smallest") is True
    assert set(holds.values()) == {False} and finding.verdict == "partly"
    assert finding.fault.startswith("Scale: in 4 of 6 runs")  # nothing that should overfit has begun to


def test_fig3_is_undecided_in_noise():
    finding = fig3(both(margins(dict.fromkeys(PEAKED, 48.0), size=8.0, growing=(), overfits=(), worse=())))
    assert finding.verdict == "undecided", finding.clauses


def test_a_peak_is_above_both_ends():
    def by_seed(*means):
        return {float(place): {1: mean, 2: mean + 0.1, 3: mean - 0.1} for place, mean in enumerate(means)}

    assert peaked(by_seed(1.0, 3.0, 2.0)) is True and peaked(by_seed(1.0, 2.0, 3.0)) is False
    assert peaked({0.1: {}, 0.2: {}, 0.3: {}}) is None
    assert spread(by_seed(1.0, 3.0, 2.0)) == pytest.approx({1: 2.0, 2: 2.0, 3: 2.0})


def test_the_gap_is_that_of_the_weights_that_were_kept():
    held = contest("nie-margins", lambda cell: {**margins(PEAKED)(cell), "best_step": 10})
    row = find_row(held["nie-margins"].comparison, "dcl")
    assert all(gap == pytest.approx(0.9 * 0.4, abs=0.02) for gap in kept(row, "gap").values())


# --- every item


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


def test_a_row_that_a_contest_lacks_is_empty():
    held = contest("nie-margins", lambda cell: finished(cell))
    assert find_row(held["nie-margins"].comparison, "barlow").runs == []
