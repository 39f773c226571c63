"""Table 2 in worlds that were made up."""

from hypersphere.studies.reproduce.nie2023.settings import table2
from tests.studies.reproduce.nie2023.worlds import contest, finished, noise


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
