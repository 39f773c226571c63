"""cosent: the order of graded pairs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from tests.cases import named
from tests.reference.graded import cosent

CASES = [("cosent", {}), ("cosent", {"similarity": "angle"}), ("cosent", {"scale": 3.0})]
SCORES = torch.tensor([0.1, 0.9, 0.5, 0.5, 0.1, 0.7, 0.3], dtype=torch.float64)


def views(size: int = 7, dim: int = 5) -> tuple[Tensor, Tensor]:
    z1, z2 = torch.randn(2, size, dim, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return z1, z2


def value_and_gradients(objective: torch.nn.Module, z1: Tensor, z2: Tensor, scores: Tensor) -> list[Tensor]:
    z1, z2 = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    loss = objective(z1, z2, scores=scores)
    return [loss.detach(), *torch.autograd.grad(loss, [z1, z2])]


@pytest.mark.parametrize("case", **named(CASES))
def test_it_is_the_sum_over_pairs_of_pairs(case: tuple[str, dict[str, Any]]) -> None:
    z1, z2 = views()
    expected = cosent(z1.tolist(), z2.tolist(), SCORES.tolist(), **case[1])
    for context in (hs.dense, lambda: hs.streaming(2)):
        with context():
            assert hs.create_objective(case[0], **case[1])(z1, z2, scores=SCORES).item() == pytest.approx(expected)


@pytest.mark.parametrize("case", **named(CASES))
def test_it_streams_survives_and_has_the_gradient_of_its_value(case: tuple[str, dict[str, Any]]) -> None:
    objective = hs.create_objective(case[0], **case[1])
    hs.testing.assert_gradient_exact(objective, dim=5)
    hs.testing.check(objective, world_size=2)


def test_it_is_exact_on_three_processes() -> None:
    hs.testing.assert_distributed_exact(hs.create_objective("cosent", similarity="angle"), world_size=3)


def plain(z1: Tensor, z2: Tensor, similarity: str, scale: float) -> Tensor:
    """All pairs of pairs as one matrix."""
    h, other = (torch.nn.functional.pad(torch.nn.functional.normalize(z), (0, 1)) for z in (z1, z2))
    cosines = (h * other).sum(dim=1)
    if similarity == "angle":
        cosines = (cosines + (h * torch.cat([-other[:, 3:], other[:, :3]], dim=1)).sum(dim=1)).abs()
    terms = (scale * (cosines.unsqueeze(1) - cosines)).exp() * (SCORES.unsqueeze(1) < SCORES)
    return torch.log(1 + terms.sum())


@pytest.mark.parametrize("similarity", ["cosine", "angle"])
def test_torch_func_and_second_derivatives_are_those_of_the_plain_form(similarity: str) -> None:
    z1, z2 = views()
    objective = hs.create_objective("cosent", similarity=similarity, scale=3.0)
    ours = lambda z: objective(z, z2, scores=SCORES)  # noqa: E731
    theirs = lambda z: plain(z, z2, similarity, 3.0)  # noqa: E731
    expected = torch.autograd.functional.hessian(theirs, z1)
    assert expected.isfinite().all()
    for hessian in (torch.func.hessian, lambda f: lambda z: torch.autograd.functional.hessian(f, z)):
        torch.testing.assert_close(hessian(ours)(z1), expected)
    for derivative in (torch.func.grad, torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(derivative(ours)(z1), torch.func.grad(theirs)(z1))
    leaf, upstream = z1.clone().requires_grad_(), torch.tensor([1.0, -2.0], dtype=torch.float64)
    for context in (hs.dense, lambda: hs.streaming(3)):
        with context():
            (several,) = torch.autograd.grad(ours(leaf), leaf, upstream, is_grads_batched=True)
        torch.testing.assert_close(several, upstream[:, None, None] * torch.func.grad(theirs)(z1))


def test_similarities_far_apart_have_finite_derivatives() -> None:
    """Exponents up to λ = 1e4, in single precision."""
    z1, z2 = (z.float() for z in views())
    objective = hs.create_objective("cosent", scale=1e4)
    assert torch.autograd.functional.hessian(lambda z: objective(z, z2, scores=SCORES), z1).isfinite().all()


def test_only_the_order_and_the_ties_of_the_scores_matter() -> None:
    objective, (z1, z2) = hs.create_objective("cosent"), views()
    expected = value_and_gradients(objective, z1, z2, SCORES)
    for scores in (SCORES.exp(), 100 * SCORES - 3, SCORES**3):
        torch.testing.assert_close(value_and_gradients(objective, z1, z2, scores), expected)
    untied = SCORES + torch.arange(7) * 1e-3
    assert value_and_gradients(objective, z1, z2, untied)[0] > expected[0]


def test_two_levels_are_a_product_of_two_sums() -> None:
    z1, z2 = views()
    scores = torch.tensor([0.0, 1, 1, 0, 0, 1, 0])
    cosines = torch.nn.functional.cosine_similarity(z1, z2)
    low, high = (5 * cosines[scores == 0]).exp().sum(), (-5 * cosines[scores == 1]).exp().sum()
    loss = hs.create_objective("cosent", scale=5.0)(z1, z2, scores=scores)
    torch.testing.assert_close(loss, (1 + low * high).log())


def test_a_large_scale_leaves_the_largest_inversion() -> None:
    z1, z2 = views()
    cosines = torch.nn.functional.cosine_similarity(z1, z2)
    inversions = [cosines[i] - cosines[j] for i in range(7) for j in range(7) if SCORES[i] < SCORES[j]]
    loss = hs.create_objective("cosent", scale=1e5)(z1, z2, scores=SCORES)
    assert loss.item() / 1e5 == pytest.approx(max(0.0, float(max(inversions))), abs=1e-4)


def test_angle_of_rows_in_the_first_half_of_the_coordinates_is_the_absolute_cosine() -> None:
    """There h·Jh' = 0, because J carries the first half of the coordinates to the second."""
    z1, z2 = views()
    z1[:, 3:], z2[:, 3:] = 0, 0
    cosines = torch.nn.functional.cosine_similarity(z1, z2).abs()
    rows = torch.stack([cosines, (1 - cosines**2).sqrt()], dim=1)  # rows with these cosines with (1, 0)
    first = torch.tensor([[1.0, 0.0]], dtype=torch.float64).expand(7, 2)
    angle = hs.create_objective("cosent", similarity="angle")(z1, z2, scores=SCORES)
    torch.testing.assert_close(angle, hs.create_objective("cosent")(rows, first, scores=SCORES))


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("similarity", ["cosine", "angle"])
def test_nothing_to_compare_is_zero_without_gradient(size: int, similarity: str) -> None:
    objective, (z1, z2) = hs.create_objective("cosent", similarity=similarity), views(size)
    for part in value_and_gradients(objective, z1, z2, torch.full((size,), 0.5)):
        assert not part.any()


def test_scores_keep_their_digits_beside_rows_of_less() -> None:
    """Scores that are equal in float32 are told apart."""
    objective, (z1, z2) = hs.create_objective("cosent"), (z.float() for z in views(2))
    scores = torch.tensor([0.5, 0.5 + 1e-12], dtype=torch.float64)
    assert objective(z1, z2, scores=scores) > 0
    assert objective(z1, z2, scores=scores.float()) == 0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "cosent needs scores: give scores= in its call"),
        ({"scores": torch.arange(7)}, "scores must be floating point numbers, not torch.int64"),
        ({"scores": SCORES[:6]}, r"scores must be a tensor of 7 numbers, one per row, not \(6,\)"),
        (
            {"scores": SCORES.log().index_fill(0, torch.tensor(2), torch.nan)},
            "scores must be finite; .* rows 2 are not",
        ),
        ({"scores": 0.5}, "scores must be a tensor of 7 numbers, one per row, not float"),
        ({"scores": SCORES, "negatives": views()[0]}, "has no negatives: it takes no negatives"),
        ({"scores": SCORES, "ids": torch.arange(7)}, "has no negatives: it takes no ids"),
    ],
)
def test_bad_calls_are_refused_in_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        hs.create_objective("cosent")(*views(), **given)


def test_an_objective_without_grades_refuses_scores() -> None:
    with pytest.raises(ValueError, match="infonce does not grade pairs: it takes no scores"):
        hs.create_objective("infonce")(*views(), scores=SCORES)
