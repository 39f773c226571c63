"""How much of a score its coordinates explain, and neighbours in them."""

from random import Random

from hypersphere.studies.reproduce.nie2023.coordinates import Checkpoint, explained, neighbours


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
