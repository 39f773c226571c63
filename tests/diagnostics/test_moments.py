"""Sums over the rows, block by block, and what is read off them."""

import numpy as np
import pytest
import torch

from hypersphere import diagnostics
from hypersphere.diagnostics import diagnose
from hypersphere.diagnostics.moments import Moments, size
from hypersphere.diagnostics.rows import Rows
from hypersphere.geometry import uniform_points
from tests.diagnostics.drawn import noise


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("count", "dim"), [(500, 64), (3000, 64), (100_000, 4), (32, 64)])
def test_what_rounding_leaves_of_a_constant_is_no_dimension(count, dim, dtype):
    z = uniform_points(1, dim).to(dtype).repeat(count, 1)
    assert diagnostics.participation_ratio(z) == 1
    assert diagnostics.effective_rank(z, centre=True) == 1
    assert diagnostics.effective_rank(z) == pytest.approx(1, abs=1e-5)
    diagnosis = diagnose(z)
    assert diagnosis.views[0].participation_ratio == 1 and diagnosis.views[0].effective_rank_centred == 1


@pytest.mark.parametrize("count", [50, 7])  # with the second moment, and without
def test_sums_of_blocks_are_those_of_numpy(count):
    z = (noise(count, 8) * 3 + 5).double()
    moments = Moments(Rows(z, "z1"))
    units = torch.cat([moments.add(block) for block in z.split(3)])
    h = z.numpy() / np.linalg.norm(z.numpy(), axis=1, keepdims=True)
    np.testing.assert_allclose(units, h, rtol=1e-12)
    np.testing.assert_allclose(moments.mean, h.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, h.var(axis=0), rtol=1e-9)
    np.testing.assert_allclose(moments.lengths, np.linalg.norm(z.numpy(), axis=1), rtol=1e-12)
    spread = moments.raw_variance.sqrt() / moments.raw_size
    np.testing.assert_allclose(spread, z.numpy().std(axis=0) / np.sqrt((z.numpy() ** 2).mean()), rtol=1e-9)
    for centre, rows in ((False, h), (True, h - h.mean(axis=0))):
        expected = np.zeros(8)
        squares = np.linalg.svd(rows, compute_uv=False) ** 2 / count
        expected[: len(squares)] = squares
        values = moments.eigenvalues(centre).numpy()
        np.testing.assert_allclose(values, expected[: len(values)], rtol=1e-9, atol=1e-12)
    assert (moments.second is None) == (count == 7)


def test_copies_are_grouped_by_their_bits_the_largest_group_first():
    z = noise(12, 4)
    z[[2, 5]] = z[0].clone()
    z[[1, 3, 4, 6, 7, 8]] = z[9].clone()
    z[10], z[11] = 0.0, -0.0
    moments = Moments(Rows(z, "z1"))
    moments.add(z[:5]), moments.add(z[5:])
    assert moments.repeated == 9 and moments.equal(0, 5) and not moments.equal(0, 1) and moments.equal(10, 11)
    assert moments.copies(5) == [([1, 3, 4, 6, 7], 7), ([0, 2, 5], 3), ([10, 11], 2)]
    assert moments.copies(1) == [([1, 3, 4, 6, 7], 7)]


@pytest.mark.parametrize(("largest", "power"), [(1.0, 2.0), (3.0, 4.0), (0.3, 0.5), (0.0, 1.0), (1e308, 2.0**1000)])
def test_a_size_is_the_next_power_of_two(largest, power):
    assert size(torch.tensor([[-largest, largest / 2]], dtype=torch.float64)) == power
