"""Curves of a run: its score first, whole steps, no panel twice, at least two numbers on a scale."""

import pytest

from hypersphere.figures.training import draw_run


@pytest.mark.parametrize("lengths", [(1.2, 1.9), (5.1, 5.2), (3.0, 3.0), (0.8, 1.4), (0.01, 30.0)])
def test_lengths_have_two_ticks_at_least(lengths):
    records = [
        {"step": step, "split": "training", "embedding_norm": value} for step, value in enumerate(lengths, start=1)
    ]
    (axis,) = draw_run(records).axes
    low, high = axis.get_ylim()
    inside = [tick for tick in axis.get_yticks() if low <= tick <= high]
    assert axis.get_title(loc="left") == "Lengths" and 2 <= len(inside) <= 12


def scored(**more):
    losses = {"objective": 2.0, "infonce": 1.0, **more}
    return [
        *({"step": step, "split": "training", **losses} for step in (0, 3)),
        *({"step": step, "split": "validation", "name": "knn", "score": score} for step, score in ((0, 40), (2, 70))),
    ]


def titles(figure):
    return [axis.get_title(loc="left") for axis in figure.axes]


def test_the_score_that_is_optimised_comes_first():
    figure = draw_run(scored(), "digits: met on digits")
    assert titles(figure) == ["kNN accuracy, %: best 70.00, step 2", "Objective", "InfoNCE, τ = 0.05"]
    assert list(figure.axes[0].get_lines()[0].get_ydata()) == [40, 70]
    assert figure.texts[0].get_text() == "digits: met on digits" and "2 measurements" in figure.texts[1].get_text()


def test_an_objective_that_is_infonce_is_drawn_once():
    assert titles(draw_run(scored(objective=1.0)))[1:] == ["InfoNCE, τ = 0.05"]


def test_steps_are_whole_numbers():
    for axis in (each for each in draw_run(scored()).axes if each.get_visible()):
        assert all(tick == round(tick) for tick in axis.get_xticks())
