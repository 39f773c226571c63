"""hypersphere/factorial on made-up worlds whose answer is known."""

from hypersphere.studies.reproduce.own.factorial import ADDED, PARTS, SETS, analyse, factorial
from tests.studies.reproduce.fabricated import held, result
from tests.studies.reproduce.own.worlds import CONTESTS, NUMBERS, world


def judged(finding, part, data="images"):
    return finding.clauses[f"{data}: {PARTS[part]}"]


def adds(finding):
    """Whether the anatomy adds to alignment and uniformity on images: its interval is above 0."""
    return next(row["low"] > 0 for row in finding.data["predictors"] if row["numbers"] == ADDED)


def test_what_the_anatomy_decides_is_predicted_from_it():
    finding = factorial(
        world(lambda n, draw: 30 + 10 * n["with_gradient"] - 8 * n["hardest_weight"] + draw.normal() / 9)
    )
    assert [judged(finding, part) for part in range(3)] == [True, True, True]
    assert judged(finding, 0, "text") is True and len(finding.clauses) == 6
    assert "Images: 75 composed losses and 36 registered" in finding.measured
    assert "Text: 12 composed losses and 8 registered" in finding.measured
    assert adds(finding)


def test_what_alignment_decides_is_not():
    finding = factorial(world(lambda n, draw: 30 + 10 * n["alignment"] - 8 * n["uniformity"]))
    assert judged(finding, 1) is False and finding.verdict in ("does not agree", "partly")
    assert "whether it is the scale or the idea" in finding.fault
    assert not adds(finding)


def test_noise_is_predicted_by_nothing():
    finding = factorial(world(lambda n, draw: 30 + draw.normal()))
    assert True not in finding.clauses.values()


def test_numbers_while_training_are_means_and_the_others_are_of_the_end():
    def make(cell):
        lines = [{"step": step, **dict.fromkeys(NUMBERS, value)} for step, value in ((0, 9.0), (1, 1.0), (2, 2.0))]
        return result(30.0, "stsb_dev", stsb_test=30.0) | {"measured": lines}

    analysis = analyse(held("factorial-text", make).comparison.contestants)
    assert len(analysis.points) == 20 and not analysis.predictions  # all alike: there is nothing to predict from
    numbers = analysis.points[0].numbers
    assert numbers == {"with_gradient": 1.5, "hardest_weight": 1.5, "ratio": 1.5, "gap": 2.0, "effective_rank": 2.0,
                       "alignment": 2.0, "uniformity": 2.0}  # fmt: skip


def test_every_set_of_numbers_is_in_the_tables():
    finding = factorial(world(lambda n, draw: 30 + draw.normal(), CONTESTS[1:]))
    assert set(SETS) < {row["numbers"] for row in finding.data["predictors"]}
    assert len(finding.data["objectives"]) == 20 and set(finding.figures) == {"prediction-text"}
