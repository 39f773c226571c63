"""The call forms of other libraries: values and gradients as theirs, from plain formulas and from the libraries."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid, normalize

import hypersphere as hs
from hypersphere.integrations import lightly, open_clip, pytorch_metric_learning
from hypersphere.testing import workers
from hypersphere.testing.example import views

SIZE = 12


def differentiated(loss: Callable[..., Tensor], *leaves: Tensor) -> list[Tensor]:
    """The value and the gradient of each leaf."""
    fresh = [leaf.clone().requires_grad_() for leaf in leaves]
    value = loss(*fresh)
    return [value.detach(), *torch.autograd.grad(value, fresh)]


def assert_alike(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def numbers(*values: float) -> list[Tensor]:
    return [torch.tensor(value, dtype=torch.float64) for value in values]


def clip(z1: Tensor, z2: Tensor, scale: Tensor) -> Tensor:
    logits, places = scale * normalize(z1) @ normalize(z2).T, torch.arange(len(z1))
    return (cross_entropy(logits, places) + cross_entropy(logits.T, places)) / 2


def siglip(z1: Tensor, z2: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    logits = scale * normalize(z1) @ normalize(z2).T + bias
    return -logsigmoid((2 * torch.eye(len(z1), dtype=logits.dtype) - 1) * logits).sum() / len(z1)


@pytest.mark.parametrize("rows", [None, 5], ids=["dense", "streamed"])
@pytest.mark.parametrize(
    ("name", "formula", "owned"), [("infonce", clip, (14.0,)), ("siglip", siglip, (9.0, -8.0))], ids=["clip", "siglip"]
)
def test_open_clip_s_scale_and_bias_get_their_gradient(
    name: str, formula: Any, owned: tuple[float, ...], rows: int | None
) -> None:
    z1, z2 = views(SIZE, 6)
    loss = open_clip.Loss(name).double()
    with hs.dense() if rows is None else hs.streaming(rows):
        assert_alike(differentiated(loss, z1, z2, *numbers(*owned)), differentiated(formula, z1, z2, *numbers(*owned)))
    assert not [p for p in loss.parameters() if p.requires_grad]


def test_open_clip_s_answer_may_be_a_dictionary_and_its_scale_capped() -> None:
    z1, z2 = views(SIZE, 6)
    capped = open_clip.Loss("infonce", max_scale=10.0).double()
    answer = capped(z1, z2, *numbers(50.0), output_dict=True)
    assert answer.keys() == {"contrastive_loss"}
    torch.testing.assert_close(answer["contrastive_loss"], clip(z1, z2, *numbers(10.0)))
    assert differentiated(capped, z1, z2, *numbers(50.0))[3] == 0


def scale_gradients() -> list[Tensor]:
    """Of one process's rows of the batch: value, gradient of its rows and of the scale."""
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else None
    mine = slice(None) if rank is None else slice(6 * rank, 6 * rank + 6)
    z1, z2 = views(SIZE, 6)
    return differentiated(open_clip.Loss("infonce", gather=True).double(), z1[mine], z2[mine], *numbers(14.0))


def test_open_clip_s_scale_has_the_gradient_of_one_process_on_two() -> None:
    value, first, second, scale = scale_gradients()
    shards = workers(2).run(scale_gradients)
    torch.testing.assert_close(torch.cat([each[1] for each in shards]) / 2, first)
    torch.testing.assert_close(torch.cat([each[2] for each in shards]) / 2, second)
    torch.testing.assert_close(sum(each[3] for each in shards) / 2, scale)
    torch.testing.assert_close(shards[0][0], value)


@pytest.mark.parametrize(
    ("create", "sentence"),
    [
        (lambda: open_clip.Loss("met"), "nothing to learn"),
        (lambda: open_clip.Loss("infonce", temperature=0.1), "temperature cannot be set here"),
        (lambda: open_clip.Loss("infonce", max_scale=0.0), "max_scale must be above 0"),
        (lambda: open_clip.Loss("siglip")(*views(4, 3), torch.ones(())), "siglip needs a logit_bias"),
        (lambda: open_clip.Loss()(*views(4, 3), torch.ones(()), torch.ones(())), "infonce has no logit_bias"),
        (lambda: lightly.Loss(memory_bank_size=16), "memory_bank_size must be 0 or"),
        (lambda: lightly.Loss("ntxent", memory_bank_size=(16, 4)), "anchors are the first view"),
        (lambda: pytorch_metric_learning.Loss("vicreg"), "vicreg is no objective of one positive"),
        (lambda: pytorch_metric_learning.Loss()(torch.eye(4)), "labels or indices_tuple must be given"),
        (lambda: pytorch_metric_learning.Loss()(torch.eye(4), None, [torch.arange(4)]), "3 or 4 tensors, not 1"),
    ],
)
def test_a_mistake_is_one_sentence(create: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        create()


def test_lightly_s_memory_bank_holds_the_only_negatives() -> None:
    (z1, z2), tau = views(4, 5), 0.5
    loss = lightly.Loss("infonce", memory_bank_size=(10, 5), temperature=tau).double()
    oldest = loss.bank.copy_(normalize(loss.bank)).clone()  # of unit length in float64 too
    torch.testing.assert_close(oldest.norm(dim=1), torch.ones(10, dtype=torch.float64))

    def plain(a: Tensor, b: Tensor, queue: Tensor) -> Tensor:
        a, b = normalize(a), normalize(b)
        logits = torch.cat([(a * b).sum(dim=1, keepdim=True), a @ queue.T], dim=1) / tau
        return cross_entropy(logits, torch.zeros(len(a), dtype=torch.long))

    assert_alike(differentiated(loss, z1, z2), differentiated(lambda a, b: plain(a, b, oldest), z1, z2))
    torch.testing.assert_close(loss.bank, torch.cat([normalize(z2), oldest[4:]]))
    loss(z1, z2)  # without a gradient: nothing enters
    torch.testing.assert_close(loss.bank, torch.cat([normalize(z2), oldest[4:]]))
    for _ in range(2):  # the third batch passes the end: two rows are dropped
        loss(z1.clone().requires_grad_(), z2)
    torch.testing.assert_close(loss.bank, normalize(torch.cat([z2, z2, z2[:2]])))
    assert int(loss.bank_ptr) == 0


def enqueued() -> Tensor:
    """The queue after one step of this process's half of the batch."""
    rank = torch.distributed.get_rank()
    z1, z2 = (z[4 * rank : 4 * rank + 4] for z in views(8, 5))
    loss = lightly.Loss("infonce", memory_bank_size=(10, 5), gather_distributed=True).double()
    loss(z1.clone().requires_grad_(), z2)
    return loss.bank


def test_lightly_s_memory_bank_takes_the_rows_of_all_processes() -> None:
    before = lightly.Loss("infonce", memory_bank_size=(10, 5)).double().bank
    for bank in workers(2).run(enqueued):
        torch.testing.assert_close(bank, torch.cat([normalize(views(8, 5)[1]), before[8:]]))


def test_lightly_s_defaults_are_those_of_its_losses() -> None:
    z1, z2 = views(8, 5)
    expected = hs.create_objective("dcl", preset="lightly")(z1, z2)
    torch.testing.assert_close(lightly.Loss("dcl")(z1, z2), expected)


@pytest.fixture
def peer() -> Any:
    library = pytest.importorskip("pytorch_metric_learning")
    for part in ("distances", "losses", "miners", "reducers"):
        import_module(f"{library.__name__}.{part}")
    return library


LABELS = torch.tensor([0, 0, 1, 1, 2, 2, 2, 0, 1, 3, 3, 4])  # 4 has no positive


def test_labelled_rows_are_contrasted_as_in_metric_learning(peer: Any) -> None:
    rows, keys = views(SIZE, 6)
    theirs = peer.losses.NTXentLoss(temperature=0.2)
    ours = pytorch_metric_learning.Loss("infonce", temperature=0.2)
    assert_alike(differentiated(lambda z: ours(z, LABELS), rows), differentiated(lambda z: theirs(z, LABELS), rows))
    others = LABELS.flip(0)
    assert_alike(
        differentiated(lambda z, k: ours(z, LABELS, ref_emb=k, ref_labels=others), rows, keys),
        differentiated(lambda z, k: theirs(z, LABELS, ref_emb=k, ref_labels=others), rows, keys),
    )


def test_pairs_of_a_miner_are_each_anchor_s_own_negatives(peer: Any) -> None:
    rows, _ = views(SIZE, 6)
    pairs = peer.miners.MultiSimilarityMiner(epsilon=0.1)(rows, LABELS)
    assert 0 < len(pairs[2]) < int((LABELS.unsqueeze(1) != LABELS).sum())  # the miner leaves some out
    theirs, ours = peer.losses.NTXentLoss(temperature=0.2), pytorch_metric_learning.Loss("infonce", temperature=0.2)
    assert_alike(
        differentiated(lambda z: ours(z, LABELS, pairs), rows), differentiated(lambda z: theirs(z, LABELS, pairs), rows)
    )


def test_triplets_of_a_miner_have_one_negative_each(peer: Any) -> None:
    rows, _ = views(SIZE, 6)
    distance = peer.distances.LpDistance()
    triplets = peer.miners.TripletMarginMiner(margin=0.4, distance=distance)(rows, LABELS)
    theirs = peer.losses.TripletMarginLoss(margin=0.45, distance=distance, reducer=peer.reducers.MeanReducer())
    ours = pytorch_metric_learning.Loss("met", margin=0.45)
    assert_alike(
        differentiated(lambda z: ours(z, LABELS, triplets), rows),
        differentiated(lambda z: theirs(z, LABELS, triplets), rows),
    )


def test_a_batch_without_pairs_has_the_loss_0() -> None:
    rows = torch.eye(4, requires_grad=True)
    value = pytorch_metric_learning.Loss("infonce")(rows, torch.arange(4))
    value.backward()
    assert value.item() == 0
    assert rows.grad is not None and not rows.grad.any()
