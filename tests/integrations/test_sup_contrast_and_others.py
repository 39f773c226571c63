"""The call forms of SupContrast, info-nce-pytorch and stable-pretraining."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from info_nce import InfoNCE
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

import hypersphere as hs
from hypersphere.testing import workers
from hypersphere.testing.example import views

integrations = hs.integrations
SupContrast, Stable = integrations.sup_contrast.Loss, integrations.stable_pretraining.Loss
Own = integrations.info_nce.Loss


def sup_contrast(features: Tensor, same: Tensor, mode: str, temperature: float, base: float) -> Tensor:
    """SupConLoss by loops over anchors; row v·N + i is view v of instance i."""
    number, count, _ = features.shape
    rows, losses = torch.cat(features.unbind(dim=1)), []
    for a in range(number * (count if mode == "all" else 1)):
        others = [k for k in range(number * count) if k != a]
        logits = {k: rows[a] @ rows[k] / temperature for k in others}
        total = torch.logsumexp(torch.stack(list(logits.values())), dim=0)
        positives = [total - logits[k] for k in others if same[a % number, k % number]]
        losses.append(torch.stack(positives).mean() if positives else total * 0)
    return torch.stack(losses).mean() * temperature / base


@pytest.mark.parametrize("known", ["labels", "mask", "neither"])
@pytest.mark.parametrize(("count", "mode"), [(1, "all"), (1, "one"), (2, "all"), (2, "one"), (3, "all"), (4, "all")])
def test_supcontrast_by_loops(count: int, mode: str, known: str) -> None:
    labels = torch.tensor([0, 1, 1, 2, 0])
    if known == "neither" and count == 1:
        return  # refused: see below
    same = torch.eye(5).bool() if known == "neither" else labels.unsqueeze(1) == labels
    raw = torch.stack([views(5, 4)[0].roll(step, 0) + step for step in range(count)], dim=1).requires_grad_()
    given = {"labels": {"labels": labels.unsqueeze(1)}, "mask": {"mask": same.float()}, "neither": {}}[known]
    features = normalize(raw, dim=2)
    loss = SupContrast(temperature=0.2, contrast_mode=mode, base_temperature=0.1)(features, **given)
    expected = sup_contrast(features, same, mode, 0.2, 0.1)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-9)
    (ours,), (theirs,) = (torch.autograd.grad(each, raw, retain_graph=True) for each in (loss, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_an_unknown_label_leaves_the_other_views() -> None:
    features = torch.randn(4, 3, 5)
    unknown = SupContrast()(features, torch.tensor([-1, -1, 5, 5]))
    apart = SupContrast()(features, torch.tensor([0, 1, 5, 5]))
    assert unknown.item() == apart.item()


@pytest.mark.parametrize("mode", ["paired", "unpaired", None])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_info_nce_equals_the_peer(mode: str | None, reduction: str) -> None:
    query, key = (each.requires_grad_() for each in views(6, 4))
    shape = {"paired": (6, 3, 4), "unpaired": (5, 4)}.get(mode or "")
    negatives = [] if shape is None else [torch.rand(shape, dtype=torch.float64, requires_grad=True)]
    settings: dict[str, Any] = {"negative_mode": mode or "unpaired", "reduction": reduction}
    results = []
    for loss in (Own(**settings), InfoNCE(**settings)):
        value = loss(query, key, *negatives)
        results.append([value.detach(), *torch.autograd.grad(value.sum(), [query, key, *negatives])])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_anchors_against_candidates_as_in_stable_pretraining(masked: bool, scale: float | None) -> None:
    anchors, candidates = (torch.randn(n, 4, dtype=torch.float64, requires_grad=True) for n in (5, 8))
    targets = torch.tensor([2, 0, 7, 2, 1])
    mask = torch.rand(5, 8) < 0.4
    mask[torch.arange(5), targets] = False
    divisor = torch.tensor(scale or 0.07, dtype=torch.float64, requires_grad=True)
    logits = normalize(anchors) @ normalize(candidates).T / divisor
    expected = cross_entropy(logits.masked_fill(mask, -torch.inf) if masked else logits, targets)
    given: dict[str, Any] = {"mask": mask} if masked else {}
    leaves = [anchors, candidates]
    if scale is not None:
        given["logit_scale"] = divisor
        leaves.append(divisor)
    loss = Stable("infonce")(anchors, candidates, targets, **given)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)  # .07 is kept in float32
    for a, b in zip(torch.autograd.grad(loss, leaves), torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-8)


def test_two_views_as_in_stable_pretraining() -> None:
    z1, z2 = (each.float() for each in views(6, 4))
    rows = normalize(torch.cat([z1, z2]))
    logits = (rows @ rows.T / 0.5).masked_fill(torch.eye(12).bool(), -torch.inf)
    expected = cross_entropy(logits, torch.arange(12).roll(6))
    assert Stable()(z1, z2).item() == pytest.approx(expected.item(), rel=1e-5)
    logits = normalize(z1) @ normalize(z2).T / 0.2
    expected = (cross_entropy(logits, torch.arange(6)) + cross_entropy(logits.T, torch.arange(6))) / 2
    clip = Stable("infonce", symmetric=True)
    assert clip(z1, z2, logit_scale=0.2).item() == pytest.approx(expected.item(), rel=1e-5)


def test_stable_pretrainings_ntxent_on_two_processes() -> None:
    z1, z2 = views(7, 4)
    expected = Stable()(z1, z2).item()
    assert workers(2).run(_part, z1, z2) == pytest.approx([expected, expected], rel=1e-12)


def _part(z1: Tensor, z2: Tensor) -> float:
    own = (slice(0, 3), slice(3, 7))[torch.distributed.get_rank()]
    value: float = Stable(gather=True)(z1[own], z2[own]).item()
    return value


def steps(call: Callable[[Tensor, Tensor, Tensor], Tensor], *learned: nn.Parameter) -> list[float]:
    """An encoder's losses on 20 rows of four classes, seen twice."""
    torch.manual_seed(0)
    encoder, x, labels, values = nn.Linear(8, 4), torch.randn(20, 8), torch.arange(20) % 4, []
    optimiser = torch.optim.Adam([*encoder.parameters(), *learned], lr=0.03)
    for _ in range(30):
        optimiser.zero_grad()
        loss = call(encoder(x), encoder(x + 0.3 * torch.randn_like(x)), labels)
        loss.backward()
        optimiser.step()
        values.append(loss.item())
    return values


def test_an_encoder_trains_with_each() -> None:
    supcon = SupContrast()
    info_nce = Own(negative_mode="paired")
    stable, temperature = Stable("infonce"), nn.Parameter(torch.tensor(0.5))
    calls: list[Callable[[Tensor, Tensor, Tensor], Tensor]] = [
        lambda z1, z2, labels: supcon(torch.stack([z1, z2], dim=1), labels),
        lambda z1, z2, labels: info_nce(z1, z2, torch.stack([z2.roll(1, 0), z2.roll(2, 0)], dim=1)),
        lambda z1, z2, labels: stable(z1, torch.cat([z2, z1.detach() + 1]), torch.arange(20), logit_scale=temperature),
    ]
    for call in calls:
        values = steps(call, temperature)
        assert values[-1] < values[0]
    assert temperature.item() < 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SupContrast()(torch.ones(3, 4)), r"features must be \(N, V, D\), rows of V views"),
        (lambda: SupContrast()(torch.rand(3, 1, 4)), "supcon of one view needs labels"),
        (
            lambda: SupContrast()(torch.rand(3, 2, 4), mask=torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]])),
            "mask must be that of classes",
        ),
        (
            lambda: SupContrast()(torch.rand(3, 2, 4), torch.arange(3), torch.eye(3)),
            "give labels or a mask, not both",
        ),
        (
            lambda: SupContrast(contrast_mode="one")(torch.rand(3, 3, 4)),
            "contrast_mode 'one' takes one or two views, not 3",
        ),
        (
            lambda: SupContrast(gather=True)(torch.rand(3, 3, 4)),
            "gather takes one or two views, not 3",
        ),
        (
            lambda: SupContrast(contrast_mode="two"),
            "contrast_mode must be 'all' or 'one', not 'two'",
        ),
        (
            lambda: Own(negative_mode="all"),
            "negative_mode must be 'unpaired' or 'paired', not 'all'",
        ),
        (
            lambda: Own(negative_mode="paired")(*views(4, 3), torch.ones(2, 3)),
            r"negative_keys must be \(N, M, D\) if negative_mode is 'paired', not \(2, 3\)",
        ),
        (
            lambda: Stable()(*views(4, 3), torch.arange(1, 5)),
            "targets must be below 4, the number of candidates, and at least 0",
        ),
        (
            lambda: Stable()(*views(4, 3), torch.arange(4), torch.eye(4).bool()),
            "mask must not be True at an anchor's own target",
        ),
        (
            lambda: Stable()(*views(4, 3), None, torch.eye(4).bool()),
            "a mask concerns anchors and candidates: give targets too",
        ),
        (
            lambda: Stable()(views(4, 3)[0], None),
            r"candidates must be the rows \(N, D\) of the positives, not NoneType",
        ),
        (lambda: Stable(learnable=True), "Loss takes no learnable"),
        (lambda: Stable()(*views(4, 3), [0, 1, 2, 3]), "targets must be a tensor of 4 whole numbers, not list"),
        (lambda: SupContrast()([torch.rand(3, 4)]), r"features must be \(N, V, D\), rows of V views, not list"),
        (lambda: SupContrast()(torch.rand(3, 2, 4), [0, 1, 1]), "labels must be a tensor .* whole numbers, not list"),
        (lambda: SupContrast()(torch.rand(3, 2, 4), mask=[[1]]), r"mask must be a tensor \(N, N\), not list"),
        (lambda: Own()(views(4, 3)[0], None), r"positive_key must be the rows \(N, D\) of the positives, not NoneType"),
        (lambda: Own()(*views(4, 3), [1.0]), r"negative_keys must be \(M, D\), not list"),
    ],
)
def test_bad_input_gets_one_sentence(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_the_package_lists_its_modules() -> None:
    assert set(dir(integrations)) >= {"info_nce", "lightly", "open_clip", "pytorch_metric_learning", "sup_contrast"}
    with pytest.raises(AttributeError, match=r"hypersphere\.integrations has no 'lightning2'; it has "):
        _ = integrations.lightning2
