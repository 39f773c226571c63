"""Formulas of gradient norms against gradients."""

import math

import pytest
import torch

from hypersphere.studies.reproduce.nie2023 import norms as nie


@pytest.mark.parametrize("name", ["infonce", "dcl", "dcl_plus", "mpt", "met", "mat"])
@pytest.mark.parametrize("angles", [(0.3, 0.4), (0.3, 2.0), (1.5, 1.4), (2.8, 0.5)])
@pytest.mark.parametrize("count", [1, 64, 512])
def test_norm_table_is_the_gradient_of_vectors_at_those_angles(name, angles, count):
    formula = nie.norms(name, *angles, count)
    assert nie.measured_norms(name, *angles, count) == pytest.approx([float(part) for part in formula], rel=1e-9)


@pytest.mark.parametrize("count", [1, 5])
def test_norms_of_alignment_and_uniformity(count):
    """Autograd on L_align and L_uniform, all anchors in one place: all pairs count alike, in N-1 negatives each."""
    size, theta, t = count + 1, 1.1, nie.T
    h = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64).repeat(size, 1).requires_grad_()
    other = torch.tensor([[math.cos(theta), math.sin(theta), 0.0]], dtype=torch.float64).repeat(size, 1)
    squared = 2 - 2 * h @ other.T
    pairs = squared[~torch.eye(size, dtype=torch.bool)]
    align, one = nie.norms("align_uniform", theta, theta, count)
    for loss, norm in (squared.diagonal().sum(), align), (torch.exp(-t * pairs).mean().log(), count * one):
        (grad,) = torch.autograd.grad(loss, [h], retain_graph=True)
        tangential = grad - (grad * h).sum(1, keepdim=True) * h
        torch.testing.assert_close(tangential.norm(dim=1), torch.full((size,), float(norm)).double())
    assert nie.measured_norms("align_uniform", theta, theta, count) == pytest.approx((float(align), float(one)))


def test_infonce_is_half_dissipated_on_the_edge():
    positive = 0.4
    negative = math.acos(math.cos(positive) - nie.TAU * math.log(4096))
    alignment, _ = nie.norms("infonce", positive, negative, 4096)
    assert alignment == pytest.approx(0.5 * math.sin(positive) / nie.TAU)
