"""Predicted beside measured: a right prediction stands on the diagonal."""

from __future__ import annotations

from hypersphere.figures.prediction import draw_predictions


def test_right_predictions_stand_on_the_diagonal_of_panels_with_one_range() -> None:
    quality = [40.0, 50.0, 60.0]
    figure = draw_predictions(quality, {"anatomy": quality, "places": [80.0, 50.0, 50.0]}, [True, False, True])
    first, second = figure.axes
    _, composed, registered = first.lines
    assert list(composed.get_xdata()) == list(composed.get_ydata()) == [40, 60]
    assert list(registered.get_xdata()) == list(registered.get_ydata()) == [50]
    assert list(second.lines[1].get_xdata()) == [80, 50]  # predicted to the right, measured upwards
    assert first.get_xlim() == first.get_ylim() == second.get_xlim() == (40 - 1.6, 80 + 1.6)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["composed", "registered"]


def test_equal_scores_leave_the_picture_a_range() -> None:
    low, high = draw_predictions([5.0, 5.0], {"": [5.0, 5.0]}, [True, True]).axes[0].get_xlim()
    assert low < 5 < high
