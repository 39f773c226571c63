"""The factorial contests as they were never held: quality follows a rule that the anatomy decides, or does not."""

import numpy as np

from tests.studies.reproduce.fabricated import held, result

NUMBERS = ("with_gradient", "hardest_weight", "ratio", "gap", "effective_rank", "alignment", "uniformity")
CONTESTS = ("factorial-images", "factorial-text")


def world(rule, contests=CONTESTS):
    """Every objective gets an anatomy from its name, and the quality that ``rule`` gives to it."""

    def made(metric, test):
        def make(cell):
            name = hash_of(cell.objective)
            numbers = dict(zip(NUMBERS, np.random.default_rng(name).uniform(0.1, 1, 7).tolist(), strict=True))
            score = rule(numbers, np.random.default_rng([cell.seed, cell.trial, name]))
            begin = dict.fromkeys(NUMBERS, 99.0)  # before the first step: says nothing about the objective
            return result(score, metric, **{test: score}) | {
                "measured": [{"step": 0, **begin}, {"step": 300, **numbers}]
            }

        return make

    names = {"factorial-images": ("knn", "knn"), "factorial-text": ("stsb_dev", "stsb_test")}
    return {each: held(each, made(*names[each])) for each in contests}


def hash_of(text):
    return sum((place + 1) ** 2 * ord(char) for place, char in enumerate(text))
