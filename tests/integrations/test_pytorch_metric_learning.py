"""pytorch-metric-learning's call form, beside its own losses, with its miners, reducers and trainer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pytorch_metric_learning import losses, miners, reducers, trainers
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance, SNRDistance
from pytorch_metric_learning.regularizers import LpRegularizer
from pytorch_metric_learning.utils.distributed import DistributedLossWrapper
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.testing import workers
from hypersphere.testing.example import views

ours = hs.integrations.pytorch_metric_learning
LABELS = torch.tensor([3, 3, 3, -1, -1, 0, 0, 0, 0, 7, 3, -1])  # one alone in its class; -1 is a class as any other
KINDS: list[tuple[Any, Any]] = [(ours.NTXentLoss, losses.NTXentLoss), (ours.SupConLoss, losses.SupConLoss)]
MINERS: dict[str, Any] = {
    "no": lambda rows, labels, *ref: None,
    "pairs": miners.MultiSimilarityMiner(epsilon=0.1),
    "all": miners.TripletMarginMiner(margin=0.2, type_of_triplets="all"),
    "hard": miners.TripletMarginMiner(margin=0.2, type_of_triplets="hard"),
    "semihard": miners.TripletMarginMiner(margin=0.9, type_of_triplets="semihard"),
    "easy": miners.TripletMarginMiner(margin=0.1, type_of_triplets="easy"),
}


def rows(size: int = 12, shift: float = 0.0) -> Tensor:
    return (views(size, 5)[0] + shift).requires_grad_()


def assert_equal(ours: Any, theirs: Any, *leaves: Tensor, **given: Any) -> None:
    """Value and gradients of a call."""
    results = []
    for loss in (ours, theirs):
        value = loss(**given)
        results.append([value.detach(), *torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("distance", [CosineSimilarity, LpDistance])
@pytest.mark.parametrize("miner", MINERS)
@pytest.mark.parametrize(("kind", "peer"), KINDS)
def test_equals_the_peer_with_all_miners(kind: Any, peer: Any, miner: str, distance: Any) -> None:
    z = rows()
    mined = MINERS[miner](z, LABELS)
    if mined is not None:
        assert all(len(each) for each in mined)
    one, other = (each(temperature=0.2, distance=distance()) for each in (kind, peer))
    assert_equal(one, other, z, embeddings=z, labels=LABELS, indices_tuple=mined)


@pytest.mark.parametrize("miner", ["no", "pairs", "all"])
@pytest.mark.parametrize(("kind", "peer"), KINDS)
def test_equals_the_peer_with_reference_rows(kind: Any, peer: Any, miner: str) -> None:
    z, ref, ref_labels = rows(), rows(9, shift=0.3), LABELS[3:]
    mined = MINERS[miner](z, LABELS, ref, ref_labels)
    given = {"embeddings": z, "labels": LABELS, "indices_tuple": mined, "ref_emb": ref, "ref_labels": ref_labels}
    assert_equal(kind(), peer(), z, ref, **given)


@pytest.mark.parametrize("reducer", [reducers.SumReducer, reducers.MeanReducer, reducers.AvgNonZeroReducer])
@pytest.mark.parametrize(("kind", "peer"), KINDS)
def test_the_peers_reducers_reduce(kind: Any, peer: Any, reducer: Any) -> None:
    z = rows()
    assert_equal(kind(reducer=reducer()), peer(reducer=reducer()), z, embeddings=z, labels=LABELS)


def test_the_peers_reducer_per_anchor() -> None:
    z = rows()
    one, other = (each(reducer=reducers.PerAnchorReducer()) for each in KINDS[0])
    assert_equal(one, other, z, embeddings=z, labels=LABELS)


@pytest.mark.parametrize(("kind", "peer"), KINDS)
def test_the_peers_regularizer_is_added(kind: Any, peer: Any) -> None:
    z, given = rows(), {"embedding_regularizer": LpRegularizer(), "embedding_reg_weight": 0.3}
    assert_equal(kind(**given), peer(**given), z, embeddings=z, labels=LABELS)


@pytest.mark.parametrize(("kind", "peer"), KINDS)
def test_a_tuple_needs_no_labels(kind: Any, peer: Any) -> None:
    z = rows()
    mined = MINERS["all"](z, LABELS)
    assert_equal(kind(), peer(), z, embeddings=z, labels=None, indices_tuple=mined)


@pytest.mark.parametrize("labels", [[0] * 4, [0, 1, 2, 3]])
@pytest.mark.parametrize(("kind", "peer"), KINDS)
def test_without_positives_or_negatives_the_loss_is_0(kind: Any, peer: Any, labels: list[int]) -> None:
    z = rows(4)
    loss = kind()(z, torch.tensor(labels))
    loss.backward()
    assert loss.item() == 0 == peer()(z, torch.tensor(labels)).item()
    assert z.grad is not None and not z.grad.any()


def test_one_positive_and_one_negative_count() -> None:
    z = rows(3)
    triplet = tuple(torch.tensor([each]) for each in range(3))
    expected = hs.create_objective("infonce", temperature=0.07)(z[:1], z[1:2], negatives=z[2:], in_batch=False)
    assert ours.Loss()(z, None, triplet).item() == pytest.approx(expected.item(), rel=1e-12)
    assert losses.NTXentLoss()(z, None, triplet).item() == 0  # it takes a lone triplet for none


def test_supcon_of_a_labelled_batch_is_supcon_on_one_view() -> None:
    z, labels = rows(), torch.arange(12) % 3
    expected = hs.create_objective("supcon", temperature=0.1)(z, labels=labels)
    assert ours.Loss("supcon")(z, labels).item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("name", ["infonce", "dcl", "met", "mpt", "siglip", "arccon"])
def test_other_objectives_see_each_positive_pair_with_the_negatives_of_its_class(name: str) -> None:
    """Loops over pairs."""
    z, objective, values = rows(), hs.create_objective(name), []
    for a in range(12):
        others = z[LABELS[a] != LABELS]
        for p in range(12):
            if p != a and LABELS[p] == LABELS[a]:
                values.append(objective(z[a : a + 1], z[p : p + 1], negatives=others, in_batch=False))
    assert ours.Loss(name)(z, LABELS).item() == pytest.approx(torch.stack(values).mean().item(), rel=1e-9)


@pytest.mark.parametrize(("kind", "peer"), KINDS)
def test_inside_cross_batch_memory(kind: Any, peer: Any) -> None:
    memories = [losses.CrossBatchMemory(each(), embedding_size=5, memory_size=20) for each in (kind, peer)]
    for step in range(4):  # the memory fills and turns over
        z = rows(8, shift=0.2 * step)
        assert_equal(*memories, z, embeddings=z, labels=torch.arange(8) % 3 + step % 2)


@pytest.mark.parametrize(("kind", "peer"), KINDS)
def test_inside_self_supervised_loss(kind: Any, peer: Any) -> None:
    z, other = rows(), rows(12, shift=0.3)
    for symmetric in (True, False):
        one, two = (losses.SelfSupervisedLoss(each(), symmetric=symmetric) for each in (kind, peer))
        assert_equal(one, two, z, other, embeddings=z, ref_emb=other)


def test_all_pairs_in_a_tuple_are_contrasted_with_shared_rows() -> None:
    """A memory of all pairs does not copy the rows for each pair."""
    z, memory, labels = rows(), rows(9), LABELS
    for by_anchor in (False, True):
        batch = ours._Batch(z, labels, memory, labels[:9])
        a, p, a2, n = batch.pairs(None)
        assert batch.columns(a, p, a2, n, by_anchor)["negatives"].shape == (9, 5)
        assert batch.columns(a, p, a2[2:], n[2:], by_anchor)["negatives"].ndim == 3


@pytest.mark.parametrize("place", [0, 1])
def test_inside_the_peers_wrapper_for_several_processes(place: int) -> None:
    z = rows().detach()
    for values in zip(*(workers(2).run(_gathered, place, kind, z) for kind in (0, 1)), strict=True):
        for a, b in zip(*values, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def _gathered(place: int, kind: int, z: Tensor) -> list[Tensor]:
    own = (slice(0, 6), slice(6, 12))[torch.distributed.get_rank()]
    rows = z[own].clone().requires_grad_()
    loss = DistributedLossWrapper(KINDS[place][kind]())(rows, LABELS[own])
    return [loss.detach(), *torch.autograd.grad(loss, rows)]


class Points(torch.utils.data.Dataset[tuple[Tensor, int]]):
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.labels = torch.arange(64) % 4
        self.points = torch.randn(64, 6) + 1.5 * torch.eye(4, 6)[self.labels]

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.points[index], int(self.labels[index])


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")
@pytest.mark.parametrize("name", ["ntxent", "supcon", "met"])
def test_the_peers_trainer_trains_with_it_and_a_miner(name: str) -> None:
    data, model = Points(), nn.Linear(6, 3)
    loss = ours.Loss(name)
    before = loss(model(data.points), data.labels).item()
    trainers.MetricLossOnly(
        models={"trunk": model},
        optimizers={"trunk_optimizer": torch.optim.Adam(model.parameters(), lr=0.02)},
        batch_size=32,
        loss_funcs={"metric_loss": loss},
        mining_funcs={"tuple_miner": miners.MultiSimilarityMiner()},
        dataset=data,
        data_device=torch.device("cpu"),
        dataloader_num_workers=0,
    ).train(num_epochs=10)
    assert loss(model(data.points), data.labels).item() < before


@pytest.mark.parametrize(
    ("settings", "call", "message"),
    [
        ({"gather": True}, (), "Loss takes no gather: give a reducer, or wrap it in DistributedLossWrapper"),
        ({"distance": SNRDistance()}, (), r"distance must be CosineSimilarity\(\) or LpDistance\(\) of unit rows"),
        (
            {"objective": "met", "distance": LpDistance()},
            (),
            "met compares cosines: LpDistance is for ntxent and supcon",
        ),
        ({"objective": "supcon", "learnable": True}, (), "supcon takes a temperature here, and no other setting"),
        (
            {"objective": "barlow"},
            (),
            "barlow has no negatives: a labelled batch needs one that has, such as dcl",
        ),
        ({}, (None,), "labels or an indices_tuple must name the positives"),
        ({}, (torch.arange(3),), "Number of embeddings must equal number of labels"),  # the library's own
        ({}, (torch.arange(4), (torch.arange(4),)), "indices_tuple must have 3 or 4 tensors, not 1"),
        ({}, (None, ([0], [1], [2])), "each of indices_tuple must be a tensor of whole numbers, not list"),
        (
            {},
            (None, (torch.tensor([0, 1]), torch.tensor([1, 9]), torch.tensor([2, 3]))),
            "indices_tuple must name rows from 0 to 3, not 1 to 9",
        ),
        ({}, (torch.arange(4), None, torch.ones(2, 5)), "embeddings and ref_emb need labels both, or neither"),
    ],
)
def test_bad_input_gets_one_sentence(settings: dict[str, Any], call: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ours.Loss(**settings)(rows(4), *call)
