"""The effect of a setting: curves over its values, level lines of objectives without it."""

from __future__ import annotations

import pytest

import hypersphere as hs
from hypersphere.figures.sweep import plot_sweep
from hypersphere.testing.example import views


def test_a_sweep_is_a_curve_and_an_objective_without_the_setting_a_level_line() -> None:
    z1, z2 = views(12, 5)
    values = [0.01, 0.1, 1.0]
    curve = [hs.dissect(hs.create_objective("infonce", temperature=value), z1, z2) for value in values]
    figure = plot_sweep(
        "temperature", values, {"infonce": curve, "met": [hs.dissect(hs.create_objective("met"), z1, z2)]}
    )
    first, level = figure.axes[0].lines
    assert list(first.get_xdata()) == values
    assert list(first.get_ydata()) == pytest.approx([each.dissipation.mean().item() for each in curve])
    assert len(set(level.get_ydata())) == 1 and figure.axes[0].get_xscale() == "log"


def test_a_sweep_names_what_it_is_of() -> None:
    anatomy = hs.dissect(hs.create_objective("infonce"), *views(12, 5))
    swept = plot_sweep("temperature", [0.05], {"infonce": [anatomy]}, source="my run")
    assert "my run" in swept.texts[1].get_text()


def test_values_that_are_words_stand_at_equal_distances() -> None:
    z1, z2 = views(12, 5)
    swept = {
        "kcl": [hs.dissect(hs.create_objective("kcl", kernel=name), z1, z2) for name in ("gaussian", "log", "imq")]
    }
    axis = plot_sweep("kernel", ["gaussian", "log", "imq"], swept).axes[0]
    assert list(axis.get_xticks()) == [0, 1, 2] and axis.get_xscale() == "linear"
    assert [label.get_text() for label in axis.get_xticklabels()] == ["gaussian", "log", "imq"]
