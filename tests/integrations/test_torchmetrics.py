"""Metrics for torchmetrics: on any batches and processes they are the project's own measures of all rows."""

import re
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torchmetrics import Metric, MetricCollection

import hypersphere as hs
from hypersphere.diagnostics import alignment, effective_rank, uniformity, wasserstein_uniformity
from hypersphere.testing.workers import workers

DIM = 6
BATCHES = (17, 1, 30, 12)


def views(dtype=torch.float32, offset=0.0):
    """60 raw rows of two views; a large offset puts all of them into a narrow cone."""
    draw = torch.Generator().manual_seed(0)
    z1 = torch.randn(sum(BATCHES), DIM, generator=draw, dtype=torch.float64)
    z2 = z1 + 0.5 * torch.randn(z1.shape, generator=draw, dtype=torch.float64)
    return (7 * (z1 + offset)).to(dtype), (z2 + offset).to(dtype)


def metrics():
    ours = hs.integrations.torchmetrics
    return {
        "alignment": ours.Alignment(),
        "alignment of lengths": ours.Alignment(alpha=1),
        "uniformity": ours.Uniformity(),
        "uniformity at 3": ours.Uniformity(t=3),
        "rank": ours.EffectiveRank(DIM),
        "rank, centred": ours.EffectiveRank(DIM, centre=True),
        "wasserstein": ours.WassersteinUniformity(),
    }


def measured(z1, z2):
    """The project's own functions on all rows, of two views the mean."""

    def mean(measure, **settings):
        return (measure(z1, **settings) + measure(z2, **settings)) / 2

    return {
        "alignment": alignment(z1, z2),
        "alignment of lengths": alignment(z1, z2, alpha=1),
        "uniformity": mean(uniformity),
        "uniformity at 3": mean(uniformity, t=3),
        "rank": mean(effective_rank),
        "rank, centred": mean(effective_rank, centre=True),
        "wasserstein": mean(wasserstein_uniformity),
    }


def close(values, expected):
    assert values.keys() == expected.keys()
    for name, value in values.items():
        assert float(value) == pytest.approx(expected[name], rel=1e-6), name


def updated(z1, z2, batches=BATCHES):
    collection = MetricCollection(metrics())
    for one, other in zip(z1.split(batches), z2.split(batches), strict=True):
        collection.update(one, other)
    return collection


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_batches_give_what_all_rows_give(dtype):
    z1, z2 = views(dtype)
    close(updated(z1, z2).compute(), measured(z1, z2))


def test_few_rows_in_a_narrow_cone_keep_their_digits():
    """Fewer rows than dimensions, whose outer products nearly coincide."""
    z1, z2 = views(torch.float64, offset=300.0)
    collection = updated(z1[:4], z2[:4], (3, 1))
    ranks = {name: collection[name].compute() for name in ("rank", "rank, centred")}
    expected = measured(z1[:4], z2[:4])
    close(ranks, {name: expected[name] for name in ranks})


def test_wasserstein_uniformity_is_that_of_a_diagnosis():
    z1, z2 = views()
    expected = [view.wasserstein for view in hs.diagnose(z1, z2).views]
    assert float(updated(z1, z2)["wasserstein"].compute()) == pytest.approx(sum(expected) / 2, rel=1e-6)


def test_one_view_is_enough_where_no_pairs_are_needed():
    z1, _ = views()
    expected = {"uniformity": uniformity(z1), "rank": effective_rank(z1), "wasserstein": wasserstein_uniformity(z1)}
    collection = MetricCollection({name: metrics()[name] for name in expected})
    for rows in z1.split(BATCHES):
        collection.update(rows)
    close(collection.compute(), expected)
    with pytest.raises(ValueError, match=r"Alignment compares positive pairs: update\(z1, z2\) takes both views"):
        metrics()["alignment"].update(z1)


def test_forward_returns_the_batch_and_accumulates():
    """A batch of one row, which an epoch may leave over, has no pairs; the epoch has."""
    z1, z2 = views()
    collection = MetricCollection(metrics())
    steps = [collection(one, other) for one, other in zip(z1.split(BATCHES), z2.split(BATCHES), strict=True)]
    close(steps[2], measured(z1[18:48], z2[18:48]))
    assert steps[1]["uniformity"].isnan() and steps[1]["wasserstein"].isnan() and steps[1]["rank"] == 1
    close(collection.compute(), measured(z1, z2))
    collection.reset()
    collection.update(z1[:20], z2[:20])
    close(collection.compute(), measured(z1[:20], z2[:20]))


def test_metrics_of_equal_states_share_them():
    collection = updated(*views())
    groups = {frozenset(group) for group in collection.compute_groups.values()}
    assert {"uniformity", "uniformity at 3", "wasserstein"} in groups and {"rank", "rank, centred"} in groups
    one, other = (collection.__getitem__(name, copy_state=False).first for name in ("uniformity", "wasserstein"))
    assert one is other


def test_states_do_not_grow_where_sums_are_enough():
    z1, z2 = views()
    for name, metric in metrics().items():
        sizes = []
        for one, other in zip(z1.split(BATCHES), z2.split(BATCHES), strict=True):
            metric(one, other)
            sizes.append(sum(torch.cat([torch.zeros(0), *state]).numel() if isinstance(state, list) else state.numel()
                             for state in metric.metric_state.values()))  # fmt: skip
        assert (len(set(sizes)) == 1) == name.startswith(("alignment", "rank")), name


def test_no_graph_is_kept_and_sums_are_float64():
    z1, z2 = (z.requires_grad_() for z in views())
    collection = updated(z1, z2)
    collection(z1, z2)
    assert all(not each.requires_grad for each in collection["uniformity"].first)
    assert collection["rank"].moment.dtype == collection["alignment"].total.dtype == torch.float64


def share(sizes):
    """Updates with this process's share of the rows, in batches; returns the synchronised values."""
    z1, z2 = views()
    rank = dist.get_rank()
    one, other = z1.split(sizes)[rank], z2.split(sizes)[rank]
    collection = MetricCollection(metrics())
    for rows, positives in zip(one.split(16), other.split(16), strict=True):
        if len(rows):
            collection.update(rows, positives)
    return {name: float(value) for name, value in collection.compute().items()}


def shares(splits):
    return [share(sizes) for sizes in splits]


def test_two_processes_with_uneven_shares_report_what_one_reports():
    """Also when one of them has no rows at all."""
    expected = measured(*views())
    for reported in workers(2).run(shares, [[43, 17], [0, 60]]):
        for values in reported:
            close(values, expected)


def test_every_metric_plots():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    collection = updated(*views())
    assert len(collection.plot()) == len(metrics())
    value = collection["uniformity"].compute()
    _, axes = collection["uniformity"].plot([value, value - 1, value + 1])
    (line,) = [each for each in axes.get_lines() if len(each.get_xdata()) == 3]
    assert line.get_ydata().tolist() == pytest.approx([float(value), float(value) - 1, float(value) + 1])
    pyplot.close("all")


def test_what_torchmetrics_reads_of_a_metric_is_set():
    better = {name: metric.higher_is_better for name, metric in metrics().items()}
    assert better == {name: name.startswith("rank") for name in better}
    for metric in metrics().values():
        assert isinstance(metric, Metric) and metric.is_differentiable is False and metric.full_state_update is False


def test_wrong_rows_get_one_sentence():
    ours = hs.integrations.torchmetrics
    with pytest.raises(ValueError, match="rows have 3 dimensions, but EffectiveRank has dim=6"):
        ours.EffectiveRank(DIM).update(torch.ones(2, 3))
    with pytest.raises(ValueError, match="at least 1, not 0"):
        ours.EffectiveRank(0)
    with pytest.raises(ValueError, match=r"rows \(N, D\), not of shape \(2,\)"):
        ours.Uniformity().update(torch.ones(2))
    with pytest.raises(ValueError, match=r"z1 must be rows \(N, D\), not NoneType"):
        ours.Uniformity().update(None)
    with pytest.raises(ValueError, match=r"one shape \(N, D\)"):
        ours.Alignment().update(torch.ones(2, 3), torch.ones(3, 3))
    with pytest.raises(ValueError, match=r"NaN or Inf in 1 of 2 rows \(row 1\)"):
        ours.WassersteinUniformity().update(torch.tensor([[1.0, 2.0], [float("nan"), 1.0]]))
    kept = ours.Uniformity()
    kept.update(torch.ones(2, 3))
    with pytest.raises(ValueError, match="rows have 4 dimensions, but those before them 3"):
        kept.update(torch.ones(2, 4))


def test_the_lines_of_the_page_run_as_printed(capsys):
    page = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.*?)```", page.partition("\n## torchmetrics\n")[2].partition("\n## ")[0], re.S)
    exec(lines, {})
    assert re.match(r"\{'Alignment': tensor\((1\.9|2\.0)\d*\), 'Uniformity': tensor\(-3\.8", capsys.readouterr().out)
