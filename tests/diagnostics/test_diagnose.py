"""The check-up: agreement of its streamed numbers with the measures, known configurations, every verdict provoked."""

import json
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


def noise(count=400, dim=32, seed=0):
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def two_views(count=400, dim=32):
    z = noise(count, dim) + 0.3
    return z * 3, z + 0.4 * noise(count, dim, seed=1)


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


def cone(count=400, dim=32):
    return noise(count, dim) + 8 * torch.eye(dim)[0]


def hubs(count=400, dim=32):
    nearness = torch.linspace(0.05, 2, count).unsqueeze(1)  # rows near the mean are everybody's neighbours
    return nearness * noise(count, dim) + 2 * torch.eye(dim)[0]


def with_columns(columns):
    z = noise()
    z[:, columns] = 0.5
    return z


def with_zero_row():
    z = noise()
    z[7] = 0
    return z


SICK = {
    "rank-1 over-fusion": (torch.ones(400, 32) + 0.01 * noise(), None),
    "dimensional collapse": (noise(400, 4) @ noise(4, 64, seed=1), None),
    "anisotropic cone": (cone(), None),
    "repeated rows": (noise(380).repeat(2, 1)[:400], None),
    "dead dimensions": (with_columns([3, 30]), None),
    "zero rows": (with_zero_row(), None),
    "hubs": (hubs(), None),
    "positives not aligned": (noise(), noise(seed=1)),
    "identical views": (noise(), 2 * noise()),
    "views apart": (noise() + 3 * torch.eye(32)[0], noise() - 3 * torch.eye(32)[0]),
}


@pytest.mark.parametrize("name", SICK)
def test_every_illness_is_found(name):
    diagnosis = diagnose(*SICK[name])
    assert name in [finding.name for finding in diagnosis.findings]
    assert not diagnosis.healthy and name in diagnosis.verdict
    finding = next(each for each in diagnosis.findings if each.name == name)
    assert any(letter.isdigit() for letter in finding.evidence)  # evidence is a number
    assert finding.remedy and str(finding) in str(diagnosis)


@pytest.mark.parametrize("name", ["rank-1 over-fusion", "dimensional collapse", "repeated rows", "dead dimensions",
                                  "positives not aligned", "identical views", "zero rows"])  # fmt: skip
def test_one_illness_is_not_taken_for_another(name):
    assert diagnose(*SICK[name]).verdict == name


def test_rank_one_says_point_or_line():
    signs = torch.where(torch.arange(400) % 2 == 0, 1.0, -1.0).unsqueeze(1)
    assert "one point" in diagnose(SICK["rank-1 over-fusion"][0]).findings[0].words
    line = diagnose(signs * SICK["rank-1 over-fusion"][0])
    assert "one line" in line.findings[0].words
    assert line.views[0].total_variance == pytest.approx(1, abs=1e-3)
    assert line.views[0].first_direction > 0.99
    assert diagnose(torch.ones(5, 3)).findings[0].name == "rank-1 over-fusion"


def test_a_finding_of_both_views_is_said_once_with_both_numbers():
    finding = diagnose(cone(), cone() + 0.1 * noise(seed=2)).findings[0]
    assert finding.name == "anisotropic cone"
    assert "z1: " in finding.evidence and "z2: " in finding.evidence


def test_grave_findings_come_first():
    z = noise(400, 4) @ noise(4, 64, seed=1)
    z[:, :3] = 0.5
    diagnosis = diagnose(z)
    assert [finding.grave for finding in diagnosis.findings] == [True, False]


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


def test_counts_of_repeated_zero_and_dead():
    z = noise(50, 8)
    z[10:13] = z[3]
    z[20] = 0
    z[21] = -0.0
    z[:, 5] = 0
    view = diagnose(z).views[0]
    assert view.repeated_rows == 4  # three copies of row 3, one of row 20
    assert view.zero_rows == 2
    assert view.dead_dimensions == [5]


def test_a_dimension_far_from_zero_is_dead_when_it_is_constant():
    z = noise(800, 8)
    z[:, 2] = 1000.0
    assert diagnose(z).views[0].dead_dimensions == [2]


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e200, 1e300])
def test_rows_of_any_size_are_judged_alike(scale):
    z = noise(60, 8).double()
    z[:, 5] = 0.5
    one, other = diagnose(z), diagnose(z * scale)
    assert other.views[0].dead_dimensions == [5] and other.verdict == one.verdict
    before, after = one.views[0].lengths, other.views[0].lengths
    for name in ("mean", "std", "smallest", "largest"):
        assert getattr(after, name) / scale == pytest.approx(getattr(before, name), rel=1e-9)


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


def test_tensors_arrays_and_mapped_files_are_one(tmp_path):
    z = noise().numpy()
    np.save(tmp_path / "z.npy", z)
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    expected = diagnose(torch.from_numpy(z)).to_dict()
    assert diagnose(z).to_dict() == expected
    assert diagnose(mapped).to_dict() == expected
    assert diagnose(z.astype(">f4")).to_dict() == expected
    assert diagnose(torch.from_numpy(z).requires_grad_()).to_dict() == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.int64])
def test_other_numbers_are_taken(dtype):
    z = (noise() * 40).to(dtype)
    assert diagnose(z).uniformity == pytest.approx(diagnose(z.double()).uniformity, abs=1e-5)


def test_to_dict_is_json_without_nan():
    diagnosis = diagnose(*two_views(), labels=torch.arange(400) % 3)
    plain = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert plain["pairs"]["alignment"] == pytest.approx(diagnosis.pairs.alignment)
    assert plain["views"][1]["name"] == "z2" and len(plain["views"][0]["variance"]) == 32
    assert plain["sampling"]["sample"] == 400 and plain["classes"]["classes"] == 3
    assert "length one" in plain["note"]


def test_print_has_every_number_and_says_it_normalised():
    words = str(diagnose(*two_views()))
    single = ("uniformity", "Wasserstein", "effective rank", "participation ratio", "anisotropy", "total variance",
              "hubness", "repeated rows", "dead dimensions", "energy")  # fmt: skip
    for name in (*single, "alignment", "distance gap"):
        assert name in words
    assert "scaled to length one" in words and "Verdict:" in words


BAD = [
    ((torch.ones(1, 4),), "z1 has 1 row;"),
    ((torch.ones(0, 4),), "z1 has 0 rows;"),
    ((torch.ones(5, 1),), "z1 has 1 column;"),
    ((torch.ones(5),), "shape (N, D)"),
    ((torch.ones(2, 3, 4),), "shape (N, D)"),
    ((torch.ones(5, 4), torch.ones(5, 3)), "one shape"),
    ((torch.tensor([[1.0, 2], [3, math.nan], [math.inf, 1]]),), "z1 holds NaN or Inf in 2 of 3 rows (row 1, 2)"),
    ((torch.ones(3, 2), torch.tensor([[1.0, 2], [3, 4], [math.nan, 1]])), "z2 holds NaN or Inf in 1 of 3 rows (row 2)"),
    ((np.array([["a", "b"], ["c", "d"]]),), "real numbers"),
    (([[1.0, 2.0], [3.0]],), "different lengths"),
    ((torch.ones(3, 2, dtype=torch.complex64),), "real numbers"),
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


def test_rows_with_nan_are_named_over_all_blocks(monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_VALUES", 8)
    z = noise(20, 4)
    z[[3, 17], 1] = math.nan
    with pytest.raises(ValueError, match=r"NaN or Inf in 2 of 20 rows \(row 3, 17\)"):
        diagnose(z)


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


def test_the_spread_of_lengths_is_of_both_views():
    z1, z2 = two_views()
    diagnosis = diagnose(z1, z2)
    spreads = [np.linalg.norm(z.numpy(), axis=1).std() for z in (z1, z2)]
    said = next(said for word, _, said in diagnosis.table() if word == "mean length")
    numbers = [float(word) for word in said.split("spread ")[1].split(" and ")]
    assert numbers == pytest.approx(spreads, rel=5e-3)


def test_effective_rank_and_uniformity_as_their_papers_write_them():
    """Roy & Vetterli 2007 on numpy's singular values; Wang & Isola 2020 on scipy's list of distances."""
    z = (noise(300, 12) @ noise(12, 12, seed=4) + 0.2).numpy().astype(np.float64)
    h = z / np.sqrt((z**2).sum(axis=1, keepdims=True))
    view = diagnose(z).views[0]
    shares = np.linalg.svd(h, compute_uv=False)
    assert view.effective_rank == pytest.approx(np.exp(scipy.stats.entropy(shares)), rel=1e-6)
    squared = scipy.spatial.distance.pdist(h, "sqeuclidean")
    assert view.uniformity == pytest.approx(np.log(np.exp(-2 * squared).mean()), rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("count", "dim"), [(500, 64), (3000, 64), (100_000, 4), (32, 64)])
def test_what_rounding_leaves_of_a_constant_is_no_dimension(count, dim, dtype):
    z = uniform_points(1, dim).to(dtype).repeat(count, 1)
    assert diagnostics.participation_ratio(z) == 1
    assert diagnostics.effective_rank(z, centre=True) == 1
    assert diagnostics.effective_rank(z) == pytest.approx(1, abs=1e-5)
    diagnosis = diagnose(z)
    assert diagnosis.views[0].participation_ratio == 1 and diagnosis.views[0].effective_rank_centred == 1


def test_hubs_copies_and_near_copies_are_named_by_row_and_text():
    """Each against a plain loop over all pairs."""
    z = noise()[:200].clone()
    z[:120] += 6 * z[150]  # row 150 is where these lean to: a neighbour of most of them
    z[150] *= 30
    z[[20, 30, 40]] = z[10].clone()
    z[60] = z[50] * (1 + 1e-6 * torch.arange(z.shape[1]))
    texts = [f"text {row}" for row in range(199)]
    diagnosis = diagnose(z, texts=[*texts, "last"])
    (view,) = diagnosis.views
    named = {kind: [each for each in view.notable if each.kind == kind] for kind in ("hub", "copies", "near copies")}
    h = torch.nn.functional.normalize(z.double())
    counts = [0] * len(h)
    for row in range(len(h)):
        others = sorted((other for other in range(len(h)) if other != row), key=lambda other: -float(h[row] @ h[other]))
        for other in others[:10]:
            counts[other] += 1
    assert named["hub"][0].rows == [max(range(len(h)), key=counts.__getitem__)] == [150]
    assert named["hub"][0].words == f"among the 10 nearest of {counts[150]}" and named["hub"][0].texts == ["text 150"]
    assert [(each.rows, each.count) for each in named["copies"]] == [([10, 20, 30, 40], 4)]
    assert named["copies"][0].texts == ["text 10", "text 20", "text 30", "text 40"]
    assert [each.rows for each in named["near copies"]] == [[50, 60]]
    with pytest.raises(ValueError, match="one for each of the 200 rows, not 199"):
        diagnose(z, texts=texts)


def test_rows_of_a_sample_keep_their_numbers():
    z = noise()[:300].clone()
    z[100:] = z[torch.arange(100).repeat(2)] * (1 + 1e-7 * torch.randn(200, z.shape[1]))
    (view,) = diagnose(z, sample=250, seed=3).views
    pairs = [each.rows for each in view.notable if each.kind == "near copies"]
    assert len(pairs) == 5 and all(one % 100 == two % 100 for one, two in pairs)


def test_one_collapsed_view_of_two_is_a_collapse():
    good, bad = noise(), torch.ones_like(noise())
    for views in ((good, bad), (bad, good)):
        diagnosis = diagnose(*views)
        assert diagnosis.collapsed and diagnosis.answer.startswith("Yes: ")
    assert not diagnose(good).collapsed and str(diagnose(good)).splitlines()[1].startswith("Has it collapsed? No: ")
    assert not diagnose(cone()).collapsed  # worth knowing, but the rows still differ
