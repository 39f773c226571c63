"""Objectives at collapsed batches: gradients and curvatures with known values, and where descent goes."""

from __future__ import annotations

import math

import pytest
import torch

from hypersphere.studies.reproduce.own import collapsed_rows
from hypersphere.studies.reproduce.own.collapsed_rows import DIM, N, curvatures, examine, gradient, starts, subject

START = {start.name: start for start in starts()}


def test_sigreg_has_no_gradient_at_the_origin_and_visreg_has_one():
    origin = START["origin"]
    assert torch.equal(gradient(subject("sigreg").loss, origin.rows), torch.zeros(2 * N, DIM, dtype=torch.float64))
    pushed = gradient(subject("visreg").loss, origin.rows)
    assert origin.parts(pushed)["leaving"] > 1e3  # quantiles over eps: rows are sent apart
    scale_alone = subject("visreg", shape=0.0)
    assert gradient(scale_alone.loss, origin.rows).norm() == 0  # the convention for a deviation of 0
    assert gradient(scale_alone.loss, origin.beside(True, 1e-9)).norm() > 0.1 * scale_alone.typical


def test_sigreg_carries_a_point_to_the_origin_without_pulling_rows_apart():
    point, one = START["point"], subject("sigreg")
    grad = gradient(one.loss, point.rows)
    assert point.parts(grad)["leaving"] < 1e-12 * grad.norm()
    assert torch.allclose(grad, grad[:1].expand_as(grad), atol=1e-15) and (grad[0] @ point.rows[0]) > 0


def test_sigregs_origin_is_unstable():
    row = examine(subject("sigreg"), START["origin"], 150)
    assert row["gradient"] == 0 and row["kind"] == "saddle" and row["smallest_curvature"] < 0
    assert row["verdict"] == "leaves" and row["loss_after"] < row["loss_before"]


@pytest.mark.parametrize("name, pull, push", [("mhe", 1.0, 10.0), ("kcl", 2.0, 16.0 * 2.0)])
def test_curvature_at_a_point_is_the_closed_form(name, pull, push):
    """Both energies are, to second order, pull · mean ‖v-v'‖² - push · mean_{i≠j} ‖v_i-v_j‖² of the displacements v of
    the first view and v' of the second: zero-mean displacements have [[a-b, -a], [-a, a]], a = 2 pull/N,
    b = 4 push/(N-1)."""
    spectrum, smooth = curvatures(subject(name), START["point"])
    a, b = 2 * pull / N, 4 * push / (N - 1)
    root = math.sqrt(b**2 + 4 * a**2)
    assert smooth
    assert spectrum[0].item() == pytest.approx((2 * a - b - root) / 2, rel=1e-6)
    assert spectrum[-1].item() == pytest.approx(2 * a, rel=1e-6)  # one view against the other, all rows alike


def test_one_direction_is_enough_where_rotations_change_nothing():
    one = subject("ntxent")
    assert one.turns and not subject("vicreg").turns and not subject("cloa").turns
    all_directions = collapsed_rows.Subject(one.name, one.loss, one.raw, False, one.typical)
    few, many = curvatures(one, START["line"])[0], curvatures(all_directions, START["line"])[0]
    assert torch.allclose(few.repeat_interleave(DIM - 1), many, atol=1e-6)


@pytest.mark.parametrize("start", START.values(), ids=START)
def test_a_motion_is_split_into_leaving_turning_and_staying_inside(start):
    motion = torch.randn(2 * N, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    parts = start.parts(motion)
    assert sum(length**2 for length in parts.values()) == pytest.approx(motion.square().sum().item())
    skew = torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    turned = start.rows @ (skew - skew.T) if start.rank else torch.ones_like(start.rows)
    assert start.parts(turned)["leaving"] < 1e-12
    assert start.distance(start.rows) < 1e-7 and 1e-4 < start.distance(start.beside(True)) < 2e-3


def test_alignment_alone_stays_at_a_point():
    one = subject("kcl", gamma=0.0)
    row = examine(one, START["point"], 20)
    assert (row["kind"], row["verdict"]) == ("minimum", "stays")
