"""Curves of a run: its score first, whole steps, no panel twice, at least two numbers on a scale."""

from pathlib import Path

import pytest

import hypersphere as hs
from hypersphere.figures.training import draw_run, save_run, verdict_events
from hypersphere.training.monitor import Monitor
from tests.training.worlds import views


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


def test_a_run_is_drawn_with_both_splits_and_its_verdicts(tmp_path: Path) -> None:
    z1, z2 = views(16, 8)
    monitor = Monitor(hs.create_objective("infonce"), training=lambda: (z1, z2, None), held_out=lambda: (z2, z1, None))
    for step in (0, 10):
        monitor.observe(step)
    records = [{**r, "verdicts": ["over-fusion"] if r["step"] else []} for r in monitor.journal.records]
    figure = draw_run(records, "mine")
    assert len(figure.axes) == 10  # no score, and InfoNCE is the objective; its length is there, though no gradient's
    assert figure.texts[0].get_text() == "mine"
    drawn = figure.axes[0].get_lines()
    assert list(drawn[0].get_xdata()) == [0, 10]
    assert drawn[0].get_ydata()[1] == monitor.journal.records[0]["objective"]
    assert drawn[1].get_linestyle() == "--"
    assert [text.get_text() for text in figure.texts if "over-fusion" in text.get_text()] == ["step 10: over-fusion"]
    picture = save_run(records, tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.pdf", "curves.png"]
    with pytest.raises(ValueError, match="no measurement yet"):
        draw_run([])


def test_what_has_no_meaning_leaves_its_panel_out() -> None:
    z1 = views(16, 8)[0]
    monitor = Monitor(hs.create_objective("mpt", margin=0.001), training=lambda: (5 * z1, z1, None))
    monitor.observe(0)
    assert monitor.journal.records[0]["with_gradient"] == 0
    assert "Ratio, median" not in [axis.get_title(loc="left") for axis in draw_run(monitor.journal.records).axes]


def test_a_score_between_two_measurements_does_not_begin_a_verdict_again() -> None:
    measured = {"split": "training", "verdicts": ["overfitting"]}
    records = [{"step": 0, "split": "training", "verdicts": []}, {"step": 10, **measured},
               {"step": 15, "split": "validation", "score": 1.0}, {"step": 20, **measured}]  # fmt: skip
    assert verdict_events(records) == [(10, "overfitting")]
    records.append({"step": 30, "split": "training", "verdicts": []})
    assert verdict_events([*records, {"step": 40, **measured}]) == [(10, "overfitting"), (40, "overfitting")]
