"""InfoNCE and its kin: bounds, saddles, peers, and extra negatives in one direction or both."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.geometry import unit
from hypersphere.testing.example import views
from tests.theory import SLACK, TEMPERATURES, batches, per_anchor


@settings(deadline=None)
@given(batches(), TEMPERATURES, st.floats(0.0, math.pi))
def test_arccon_is_never_below_infonce_while_its_angle_stays_below_pi(
    batch: tuple[Tensor, Tensor], tau: float, margin: float
) -> None:
    infonce = per_anchor("infonce", *batch, temperature=tau)
    arccon = per_anchor("arccon", *batch, temperature=tau, angle=margin)
    angles = (unit(batch[0]) * unit(batch[1])).sum(dim=1).clamp(-1, 1).arccos()
    assert (arccon >= infonce - SLACK)[angles + margin <= math.pi].all()
    plain = per_anchor("arccon", *batch, temperature=tau, angle=0.0)
    torch.testing.assert_close(plain, infonce, rtol=1e-12, atol=1e-14)


def test_arccon_may_be_below_infonce_beyond_pi() -> None:
    """cos(θ+u) rises again once θ+u > π."""
    x = torch.eye(2, dtype=torch.float64)
    assert (per_anchor("arccon", x, -x, angle=math.pi, temperature=1.0) < per_anchor("infonce", x, -x)).all()


def test_all_rows_equal_gives_the_logarithm_of_the_denominators_length() -> None:
    z = torch.ones(6, 3, dtype=torch.float64)
    assert hs.create_objective("infonce")(z, z).item() == pytest.approx(math.log(6))
    assert hs.create_objective("ntxent")(z, z).item() == pytest.approx(math.log(11))


def test_rank_one_is_a_saddle_and_not_a_minimum() -> None:
    """At the all-equal point the summed NT-Xent has the eigenvalues -4N/((2N-1)τ) and (2/τ)(2-2N/(2N-1))."""
    size, tau = 4, 0.5
    objective = hs.create_objective("ntxent", temperature=tau, reduction="sum")
    start = torch.zeros(2 * size, 3, dtype=torch.float64)
    start[:, 0] = 1

    def loss(z: torch.Tensor) -> torch.Tensor:
        return objective(z[:size], z[size:])

    hessian = torch.autograd.functional.hessian(loss, start).reshape(6 * size, 6 * size)
    values = torch.linalg.eigvalsh(hessian)
    assert values.min().item() == pytest.approx(-4 * size / ((2 * size - 1) * tau), abs=1e-9)
    assert values.max().item() == pytest.approx(2 / tau * (2 - 2 * size / (2 * size - 1)), abs=1e-9)


def test_ntxent_equals_pytorch_metric_learning() -> None:
    from pytorch_metric_learning.losses import NTXentLoss, SelfSupervisedLoss

    z1, z2 = (z.float() for z in views(16, 8))
    peer = SelfSupervisedLoss(NTXentLoss(temperature=0.3))(z1, z2).item()
    assert hs.create_objective("ntxent", temperature=0.3)(z1, z2).item() == pytest.approx(peer, rel=1e-5)


SIGNS = [
    [1, 1, 1, 1, 1, 1],
    [1, 1, -1, 1, 1, -1],
    [1, -1, -1, 1, -1, -1],
    [1, 1, 1, -1, -1, -1],
    [1, 1, 1, 1, 1, -1],
    [1, -1, 1, -1, 1, 1],
]


def ntxent_at_rank_one(signs: list[int], tau: float) -> tuple[Tensor, Tensor]:
    """Gradient and eigenvalues of the Hessian of NT-Xent where all rows of both views are ± one vector."""
    size = len(signs) // 2
    objective = hs.create_objective("ntxent", temperature=tau, reduction="sum")
    direction = unit(torch.tensor([[0.3, -0.5, 0.8]], dtype=torch.float64))
    start = torch.tensor(signs, dtype=torch.float64).unsqueeze(1) * direction

    def loss(z: Tensor) -> Tensor:
        return objective(z[:size], z[size:])

    grad = torch.autograd.functional.jacobian(loss, start)
    hessian = torch.autograd.functional.hessian(loss, start).reshape(start.numel(), start.numel())
    return grad, torch.linalg.eigvalsh(hessian)


@pytest.mark.parametrize("tau", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("signs", SIGNS, ids=["".join("+-"[s < 0] for s in signs) for signs in SIGNS])
def test_every_pattern_of_signs_at_rank_one_is_a_saddle_of_ntxent(signs: list[int], tau: float) -> None:
    grad, curvature = ntxent_at_rank_one(signs, tau)
    assert grad.abs().max() < 1e-9
    assert curvature.min() < -1e-3


def test_two_opposite_instances_are_at_rank_one_and_a_minimum() -> None:
    """The simplex of two points is a line."""
    grad, curvature = ntxent_at_rank_one([1, -1, 1, -1], 0.5)
    assert grad.abs().max() < 1e-9
    assert curvature.min() > -1e-9


def test_debiased_rests_on_its_floor_where_the_correction_is_not_positive() -> None:
    x = torch.eye(6, dtype=torch.float64)
    for temperature in (0.5, 0.07):
        loss = hs.create_objective("debiased", prior=0.9, temperature=temperature)(x, x).item()
        floor = 10 * math.exp(-1 / temperature)
        expected = math.log1p(floor / math.exp(1 / temperature))
        assert loss == pytest.approx(expected, rel=1e-9)


def sentence_transformers_loss(embeddings: list[torch.Tensor], **settings: Any) -> torch.Tensor:
    """MultipleNegativesRankingLoss, by default in both directions, each with a softmax of its own."""
    pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    both = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    loss = MultipleNegativesRankingLoss(nn.Identity(), scale=20.0, **(settings or both))
    value: torch.Tensor = loss.compute_loss_from_embeddings(embeddings, torch.empty(0))
    return value


@pytest.mark.parametrize("size", [6, 1])
def test_hard_negatives_are_those_of_sentence_transformers(size: int) -> None:
    anchors, positives = (z.requires_grad_() for z in views(size, 5))
    hard = views(size, 5, seed=3)[0].requires_grad_()
    given = [anchors, positives, hard]
    theirs = sentence_transformers_loss(given)
    ours = hs.create_objective("infonce", temperature=1 / 20, symmetric=True)(anchors, positives, negatives=hard)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-9)
    for one, other in zip(torch.autograd.grad(ours, given), torch.autograd.grad(theirs, given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


EVERY_DIRECTION = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"pool": "same"}, {"directions": ("query_to_doc", "query_to_query")}),
        ({"pool": "other"}, {"directions": ("query_to_doc", "doc_to_doc")}),
        ({"pool": "back"}, {"directions": ("query_to_doc", "doc_to_query")}),
        ({"pool": "all"}, {"directions": ("query_to_doc", "query_to_query", "doc_to_doc")}),
        ({"pool": "gte"}, {"directions": EVERY_DIRECTION}),
        ({"hardness": 9.0}, {"hardness_mode": "in_batch_negatives", "hardness_strength": 9.0}),
    ],
)
def test_directions_and_hardness_of_sentence_transformers(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    given = [z.requires_grad_() for z in views(7, 5)]
    peer = sentence_transformers_loss(given, **theirs)
    for context in (hs.dense(), hs.streaming(3)):
        with context:
            loss = hs.create_objective("infonce", temperature=1 / 20, **ours)(*given)
        assert loss.item() == pytest.approx(peer.item(), rel=1e-9)
        grads = torch.autograd.grad(loss, given), torch.autograd.grad(peer, given, retain_graph=True)
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("pool", "direction"), [("same", "query_to_query"), ("back", "doc_to_query")])
def test_hard_negatives_in_a_joint_softmax_are_those_of_sentence_transformers(pool: str, direction: str) -> None:
    given = [*views(7, 5), views(7, 5, seed=3)[0]]
    theirs = sentence_transformers_loss(given, directions=("query_to_doc", direction))
    ours = hs.create_objective("infonce", temperature=1 / 20, pool=pool)(*given[:2], negatives=given[2])
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-9)


def test_hardness_needs_one_pool() -> None:
    with pytest.raises(ValueError, match="infonce's hardness concerns the other view: its pool must be 'cross'"):
        hs.create_objective("infonce", pool="gte", hardness=1.0)


def test_a_scale_may_belong_to_the_model() -> None:
    """open_clip's way: the loss is given the model's logit scale, which receives its gradient."""
    z1, z2 = views(6, 4)
    scale, peer = (torch.tensor(14.0, dtype=torch.float64, requires_grad=True) for _ in range(2))
    logits = peer * nn.functional.normalize(z1) @ nn.functional.normalize(z2).T
    expected = sum(nn.functional.cross_entropy(each, torch.arange(6)) for each in (logits, logits.T)) / 2
    objective = hs.create_objective("infonce", symmetric=True, learnable=True)
    for context in (hs.dense(), hs.streaming(2)):
        with context:
            loss = torch.func.functional_call(objective, {"log_temperature": -scale.log().reshape(1)}, (z1, z2))
        assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
        (ours,) = torch.autograd.grad(loss, scale)
        (theirs,) = torch.autograd.grad(expected, peer, retain_graph=True)
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_by_hand_the_second_direction_meets_extra_negatives_only_if_asked() -> None:
    """Orthogonal rows at temperature 1: an anchor's positive is at cosine 1, all its negatives are at 0."""
    x, extra = torch.eye(5)[:2], torch.eye(5)[2:]
    without, with_extra = math.log(1 + 1 / math.e), math.log(1 + 4 / math.e)
    for params, expected in (
        ({"symmetric": True}, (with_extra + without) / 2),
        ({"symmetric": True, "extra_negatives": "both"}, with_extra),
        ({}, with_extra),
    ):
        objective = hs.create_objective("infonce", temperature=1.0, **params)
        assert objective(x, x, negatives=extra).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("extra_negatives", ["first", "both"])
@pytest.mark.parametrize("temperature", [0.5, 0.01])  # by sums of exponentials, and too cold for them
def test_either_choice_streams_and_distributes(extra_negatives: str, temperature: float) -> None:
    objective = hs.create_objective(
        "infonce", symmetric=True, extra_negatives=extra_negatives, temperature=temperature, learnable=True
    )
    hs.testing.assert_streams_exactly(objective)
    hs.testing.assert_distributed_exact(objective)


def test_the_choice_is_printed_where_it_is_not_the_usual_one() -> None:
    assert "extra" not in repr(hs.create_objective("infonce", symmetric=True))
    assert "extra_negatives='both'" in repr(hs.create_objective("infonce", extra_negatives="both"))
