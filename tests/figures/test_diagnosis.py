"""Pictures of a diagnosis: bars stand where the legend says, and not behind it."""

import dataclasses

import numpy as np
import torch

from hypersphere.diagnostics import diagnose
from hypersphere.figures.diagnosis import plots


def normal(count, dim, seed=0):
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def test_a_count_that_rounding_left_below_ten_stands_at_ten():
    """Rows that are equally near share a place, and the shares of ten places may add up to 9.999…"""
    diagnosis = diagnose(normal(40, 8))
    times = torch.full_like(diagnosis.views[0].occurrences, 10 - 2e-15)
    diagnosis = dataclasses.replace(diagnosis, views=(dataclasses.replace(diagnosis.views[0], occurrences=times),))
    (bars,) = (each for each in plots(diagnosis)["neighbours"].axes[0].patches if hasattr(each, "get_data"))
    values, edges, _ = bars.get_data()
    assert edges[int(np.argmax(values))] == 10 and values.max() == 40


def test_every_figure_names_its_source_and_clips_no_label():
    for views in ((normal(40, 8),), (normal(40, 8), normal(40, 8, seed=1)), (torch.ones(40, 768) + 1e-3,)):
        for figure in plots(diagnose(*views), "a run").values():
            figure.canvas.draw()
            assert figure.get_suptitle().endswith(": a run")
            inside, drawn = figure.bbox, figure.axes[0].get_tightbbox()  # with its labels and its legend
            assert inside.x0 <= drawn.x0 and drawn.x1 <= inside.x1
            assert inside.y0 <= drawn.y0 and drawn.y1 <= inside.y1


def test_the_axis_of_shares_ends_at_one():
    axis = plots(diagnose(normal(40, 8)))["spectrum"].axes[0]
    assert axis.get_ylim()[1] == 1


def test_bars_end_below_the_legend():
    """Three rows have three cosines, each as high as the picture goes."""
    z = normal(3, 2)
    figure = plots(diagnose(z, normal(3, 2, seed=1)))["similarities"]
    figure.canvas.draw()
    axis = figure.axes[0]
    highest = max(each.get_data().values.max() for each in axis.patches if hasattr(each, "get_data"))
    top = axis.transData.transform((0, highest))[1]
    assert top < axis.get_legend().get_window_extent().y0
