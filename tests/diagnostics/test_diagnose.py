"""The check-up: agreement of its streamed numbers with the measures, known configurations, samples of the rows."""

import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.linalg
import scipy.spatial
import scipy.stats
import torch

from hypersphere import diagnostics
from hypersphere.diagnostics import diagnose, rows
from hypersphere.geometry import cross_polytope, simplex, uniform_points, unit
from tests.diagnostics.drawn import noise, two_views


@pytest.mark.parametrize("shape", [(400, 32), (20, 32)])  # more rows than dimensions, and fewer
def test_streamed_numbers_are_those_of_the_measures(shape, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_VALUES", 32 * 7)  # blocks of seven rows
    z1, z2 = two_views(*shape)
    diagnosis = diagnose(z1, z2)
    first, second = diagnosis.views
    assert diagnosis.uniformity == pytest.approx((diagnostics.uniformity(z1) + diagnostics.uniformity(z2)) / 2)
    assert first.effective_rank == pytest.approx(diagnostics.effective_rank(z1), 1e-5)
    assert first.effective_rank_centred == pytest.approx(diagnostics.effective_rank(z1, centre=True), 1e-4)
    assert second.participation_ratio == pytest.approx(diagnostics.participation_ratio(z2))
    assert first.total_variance == pytest.approx(diagnostics.total_variance(z1), 1e-5)
    cosines = diagnostics.cosines(z1, z2)
    assert diagnosis.pairs.alignment == diagnosis.alignment == pytest.approx(diagnostics.alignment(z1, z2), 1e-5)
    assert diagnosis.pairs.positive_cosine == pytest.approx(float(cosines.positive.mean()))
    assert diagnosis.pairs.positive_std == pytest.approx(float(cosines.positive.std(unbiased=False)), 1e-3)
    assert diagnosis.pairs.negative_cosine == pytest.approx(cosines.negative_mean, abs=1e-6)
    assert diagnosis.pairs.negative_std == pytest.approx(cosines.negative_std, 1e-4)
    assert diagnosis.pairs.positive_histogram.sum() == len(z1)


def test_a_view_against_numpy_and_scipy(monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_VALUES", 32 * 7)
    z = two_views()[0].double()
    view = diagnose(z).views[0]
    h = z.numpy() / np.linalg.norm(z.numpy(), axis=1, keepdims=True)
    np.testing.assert_allclose(view.variance, h.var(axis=0), rtol=1e-9)
    np.testing.assert_allclose(view.singular_values, scipy.linalg.svdvals(h), rtol=1e-7)
    np.testing.assert_allclose(view.eigenvalues, scipy.linalg.eigvalsh(np.cov(h.T, bias=True))[::-1], rtol=1e-7)
    gram = h @ h.T
    cosines = gram[np.triu_indices(len(h), 1)]
    assert view.anisotropy == pytest.approx(cosines.mean())
    levels = (np.arange(200_000) + 0.5) / 200_000
    uniform = 2 * scipy.stats.beta.ppf(levels, 15.5, 15.5) - 1
    assert view.wasserstein == pytest.approx(scipy.stats.wasserstein_distance(cosines, uniform), abs=1e-6)
    assert view.first_direction == pytest.approx(scipy.linalg.svdvals(h)[0] ** 2 / len(h))
    np.testing.assert_array_equal(view.histogram, np.histogram(np.float32(cosines), bins=200, range=(-1, 1))[0])
    lengths = np.linalg.norm(z.numpy(), axis=1)
    assert (view.lengths.mean, view.lengths.std) == pytest.approx((lengths.mean(), lengths.std(ddof=1)))
    assert (view.lengths.smallest, view.lengths.largest) == pytest.approx((lengths.min(), lengths.max()))


def test_a_simplex_and_a_cross_polytope_have_the_least_energy():
    for best, name in ((simplex(13, 12), "regular simplex"), (cross_polytope(12), "cross-polytope")):
        view = diagnose(best).views[0]
        assert view.least_energy_of == name
        assert view.energy == pytest.approx(view.least_energy)
        assert view.uniformity < view.uniformity_of_uniform
        assert diagnose(best).healthy


def test_uniform_rows_are_healthy_and_near_the_uniform_measure():
    diagnosis = diagnose(uniform_points(1500, 24))
    view = diagnosis.views[0]
    assert diagnosis.healthy and diagnosis.verdict == "healthy"
    assert view.wasserstein < 0.003
    assert view.uniformity == pytest.approx(view.uniformity_of_uniform, abs=0.01)
    assert view.rank == 24 and view.effective_rank > 23.8 and view.participation_ratio > 23
    assert abs(view.anisotropy) < 1e-3 and abs(view.hubness) < 1
    assert view.energy == pytest.approx(view.least_energy, 1e-3)


def test_healthy_pairs_are_healthy():
    z1, z2 = two_views()
    diagnosis = diagnose(z1 - z1.mean(dim=0), z2 - z2.mean(dim=0))
    assert diagnosis.healthy
    assert diagnosis.pairs.found_first > 0.95 and diagnosis.pairs.closer_than_random > 0.99
    assert 0 < diagnosis.pairs.hardest_gap < diagnosis.pairs.distance_gap


def test_labels_show_whether_classes_are_apart():
    centres = 3 * noise(4, 32, seed=5)
    names = np.array(["ant", "bee", "cat", "dog"])[np.arange(400) % 4]
    z = centres[torch.arange(400) % 4] + noise()
    diagnosis = diagnose(z, labels=names)
    assert diagnosis.classes.gap > 0.3 and diagnosis.classes.agreement > 0.99
    assert "classes mixed" not in diagnosis.verdict
    mixed = diagnose(noise(), labels=torch.arange(400) % 4)
    assert mixed.verdict == "classes mixed" and abs(mixed.classes.gap) < 0.01
    rare = (torch.arange(400) < 40).long()  # by chance four of five neighbours agree
    assert diagnose(noise(), labels=rare).verdict == "classes mixed"
    assert diagnose(noise() + 3 * rare.unsqueeze(1) * torch.eye(32)[0], labels=rare).classes.beyond_chance > 0.3


def test_only_minus_one_means_no_label():
    labels = torch.arange(400) % 3 - 1
    assert diagnose(noise(), labels=labels).classes.classes == 2
    assert diagnose(noise(), labels=labels).classes.labelled == 266
    for wrong in (labels - 1, (labels - 1).double(), (labels - 1).numpy().astype(np.int8)):
        with pytest.raises(ValueError, match="labels hold -2; classes are numbered from 0, and -1 stands for no label"):
            diagnose(noise(), labels=wrong)


def test_large_inputs_are_sampled_and_say_so():
    z = noise(1500, 8) + 1
    whole, part = diagnose(z), diagnose(z, sample=500, seed=3)
    assert whole.sampling.complete and not part.sampling.complete
    assert "all 1,500 rows" in str(part) and "500 rows drawn at random (seed 3)" in str(part)
    assert part.views[0].effective_rank == whole.views[0].effective_rank  # of all rows in both
    assert part.views[0].anisotropy == whole.views[0].anisotropy
    assert part.uniformity != whole.uniformity and part.uniformity == pytest.approx(whole.uniformity, abs=0.1)
    assert diagnose(z, sample=500, seed=3).to_dict() == part.to_dict()
    assert diagnose(z, sample=500, seed=4).uniformity != part.uniformity


BAD = [
    ((torch.ones(1, 4),), "z1 has 1 row;"),
    ((torch.ones(5, 4), torch.ones(5, 3)), "one shape"),
    ((torch.ones(3, 2), torch.tensor([[1.0, 2], [3, 4], [math.nan, 1]])), "z2 holds NaN or Inf in 1 of 3 rows (row 2)"),
    ((torch.ones(3, 2), None, torch.ones(4)), "one for each of the 3 rows"),
    ((torch.ones(3, 2), None, torch.tensor([0, 1, 2])), "at least two classes"),
    ((torch.ones(3, 2), None, torch.tensor([0.5, 1.5, 2])), "fractions"),
    ((torch.ones(3, 2), None, torch.tensor([0.0, 1, math.nan])), "labels hold NaN or Inf; an unlabelled row has -1"),
]


@pytest.mark.parametrize("given, sentence", BAD, ids=[sentence for _, sentence in BAD])
def test_bad_input_gets_one_sentence(given, sentence):
    with pytest.raises(ValueError) as caught:
        diagnose(*given)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_progress_ends_at_the_last_row(monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_VALUES", 32 * 100)
    seen = []
    diagnose(noise(), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(100, 400), (200, 400), (300, 400), (400, 400)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Six times the rows, of which even one copy in float32 would be 130 MB more."""
    for name, count in (("few", 50_000), ("many", 300_000)):
        file = np.lib.format.open_memmap(tmp_path / f"{name}.npy", mode="w+", dtype=np.float32, shape=(count, 128))
        file[:2000] = noise(2000, 128).numpy()  # the rest are holes of the file, read as zeros
        file.flush()
    probe = textwrap.dedent("""
        import re, sys, threading
        import numpy as np, torch
        from hypersphere.diagnostics import diagnose
        torch.set_num_threads(1)
        def own():
            return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) / 1024
        for path in sys.argv[1:]:
            z, stop, peak = np.load(path, mmap_mode="r"), threading.Event(), [0]
            def watch():
                while not stop.wait(0.002):
                    peak[0] = max(peak[0], own())
            watcher = threading.Thread(target=watch)
            watcher.start()
            assert diagnose(z, sample=256).rows == len(z)
            stop.set()
            watcher.join()
            print(peak[0])
    """)
    command = [sys.executable, "-c", probe, str(tmp_path / "few.npy"), str(tmp_path / "many.npy")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    few, many = map(float, answer.stdout.split())
    assert many - few < 60, f"{few:.0f} MB for 50,000 rows, {many:.0f} MB for 300,000"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_rows_given_are_left_alone(dtype):
    z1, z2 = (z.to(dtype) for z in two_views())
    kept = z1.clone(), z2.clone()
    diagnose(z1, z2)
    assert torch.equal(z1, kept[0]) and torch.equal(z2, kept[1])


def test_unit_rows_stay_as_they_are():
    z = noise()
    plain, scaled = diagnose(z), diagnose(unit(z))
    assert scaled.uniformity == pytest.approx(plain.uniformity, abs=1e-5)
    assert scaled.views[0].lengths.mean == pytest.approx(1)


def test_the_order_of_the_rows_changes_wasserstein_uniformity_by_sampling_only():
    """1,500 rows sorted into three clusters: the first 1,024 would be two of them."""
    centres = torch.eye(3, 16)
    z = centres.repeat_interleave(500, dim=0) + 0.1 * noise(1500, 16)
    orders = torch.arange(1500), torch.arange(1499, -1, -1)
    values = [diagnose(z[order], sample=1024, seed=3).views[0].wasserstein for order in orders]
    h = unit(z.double())
    whole = diagnostics.uniform.UniformCosine(16).wasserstein(cosines_of(h))
    shuffled = [
        diagnose(z[torch.randperm(1500, generator=torch.Generator().manual_seed(s))], sample=1024).views[0].wasserstein
        for s in range(3)
    ]
    error = max(abs(value - whole) for value in shuffled)  # what a random sample does to the number
    first = diagnostics.uniform.UniformCosine(16).wasserstein(cosines_of(h[:1024]))
    assert abs(first - whole) > 5 * error
    assert all(abs(value - whole) < 3 * error for value in values)
    assert "2,048 of these rows, drawn at random (seed 3)" in str(diagnose(z.repeat(2, 1), seed=3).sampling)


def cosines_of(h):
    return (h @ h.T)[torch.triu(torch.ones(len(h), len(h), dtype=torch.bool), 1)]


def test_effective_rank_and_uniformity_as_their_papers_write_them():
    """Roy & Vetterli 2007 on numpy's singular values; Wang & Isola 2020 on scipy's list of distances."""
    z = (noise(300, 12) @ noise(12, 12, seed=4) + 0.2).numpy().astype(np.float64)
    h = z / np.sqrt((z**2).sum(axis=1, keepdims=True))
    view = diagnose(z).views[0]
    shares = np.linalg.svd(h, compute_uv=False)
    assert view.effective_rank == pytest.approx(np.exp(scipy.stats.entropy(shares)), rel=1e-6)
    squared = scipy.spatial.distance.pdist(h, "sqeuclidean")
    assert view.uniformity == pytest.approx(np.log(np.exp(-2 * squared).mean()), rel=1e-9)
