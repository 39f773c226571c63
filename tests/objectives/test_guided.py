"""Negatives that a guide holds for positives are dropped; the positive never is."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

import hypersphere as hs
from hypersphere.testing import workers
from hypersphere.testing.example import views
from tests import cases
from tests.engine.test_groups import gradients

SOFTMAX = ["infonce", "ntxent", "dcl", "dhel"]


def guides(size: int = 8) -> tuple[Tensor, Tensor]:
    one, two = views(size, 3)
    return one, two + 0.5 * one


def guided(base: Any, **settings: Any) -> Any:
    return hs.create_objective("guided", base=base, **settings)


@pytest.mark.parametrize("strategy", ["absolute", "relative"])
@pytest.mark.parametrize("margin", [0.0, 0.2, -0.1])
def test_gist_by_loops(margin: float, strategy: str) -> None:
    """One softmax over query-document, query-query and document-document pairs, judged one by one; some positives are
    dissimilar to the guide, where a relative margin must not rise with their cosine."""
    (z1, z2), (g1, g2) = views(8, 5), guides()
    g2[::2] *= -1
    assert sorted((normalize(g1) * normalize(g2)).sum(dim=1).sign().tolist()) == [-1.0] * 4 + [1.0] * 4
    x, y, gx, gy = (normalize(z).tolist() for z in (z1, z2, g1, g2))
    dot = lambda a, b: sum(p * q for p, q in zip(a, b, strict=True))  # noqa: E731
    losses = []
    for i in range(8):
        own = dot(gx[i], gy[i])
        threshold = own - margin * (abs(own) if strategy == "relative" else 1)
        total = math.exp(dot(x[i], y[i]) / 0.1)
        for j in range(8):
            for left, right, of_left, of_right in ((x, y, gx, gy), (x, x, gx, gx), (y, y, gy, gy)):
                if j != i and dot(of_left[i], of_right[j]) <= threshold:
                    total += math.exp(dot(left[i], right[j]) / 0.1)
        losses.append(math.log(total) - dot(x[i], y[i]) / 0.1)
    base = {"name": "infonce", "pool": "all", "temperature": 0.1}
    loss = guided(base, margin=margin, strategy=strategy)(z1, z2, guide=(g1, g2))
    assert loss.item() == pytest.approx(sum(losses) / 8, rel=1e-10)


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.PAIRWISE))
def test_a_margin_of_minus_2_drops_nothing(name: str, params: dict[str, Any]) -> None:
    (z1, z2), guide = views(6, 4), guides(6)
    base = hs.create_objective(name, **params)
    plain, masked = gradients(base, z1, z2), gradients(guided(base, margin=-2.0), z1, z2, guide=guide)
    for one, other in zip(plain, masked, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["infonce", "ntxent"])
def test_a_softmax_falls_as_the_margin_rises(name: str) -> None:
    (z1, z2), guide = views(8, 4), guides()
    losses = [guided(name, margin=m)(z1, z2, guide=guide).item() for m in (-2.0, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0, 3.0)]
    assert all(one >= other for one, other in itertools.pairwise(losses))
    assert losses[0] > losses[3] > losses[-1] == 0


@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize(("name", "params"), **cases.named([*cases.PAIRWISE[::2], ("mixup", {}), ("hyperbolic", {})]))
def test_streamed_is_dense(name: str, params: dict[str, Any], rows: int) -> None:
    (z1, z2), guide = views(8, 4), guides()
    objective = guided(hs.create_objective(name, **params), margin=0.1)
    with hs.dense():
        dense = gradients(objective, z1, z2, guide=guide)
    with hs.streaming(rows):
        for one, other in zip(dense, gradients(objective, z1, z2, guide=guide), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_the_rows_themselves_are_a_guide_without_gradient() -> None:
    z1, z2 = views(8, 4)
    for name in SOFTMAX:
        itself = gradients(guided(name, source="self", margin=-0.1), z1, z2)
        given = gradients(guided(name, margin=-0.1), z1, z2, guide=(z1, z2))
        for one, other in zip(itself, given, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)
    plain = gradients(hs.create_objective("infonce"), z1, z2)
    loose = gradients(guided("infonce", source="self", margin=-2.1), z1, z2)
    for one, other in zip(plain, loose, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def test_copies_in_the_guide_tie_with_the_positive_and_stay() -> None:
    """Equal cosines are not above the threshold, however a product rounds them."""
    z1, z2 = (z.float() for z in views(40, 5))
    guide = torch.randn(1, 37, generator=torch.Generator().manual_seed(0)).repeat(40, 1)
    plain = hs.create_objective("infonce")(z1, z2)
    for rows in (1, 7, 40):
        with hs.streaming(rows):
            torch.testing.assert_close(guided("infonce")(z1, z2, guide=guide), plain, rtol=1e-5, atol=0)


@pytest.mark.parametrize("world_size", [2, 3])
def test_the_positive_survives_on_every_rank(world_size: int) -> None:
    """With a margin above 0 the positive itself is above the threshold; a mask by local columns would drop it."""
    (z1, z2), (g1, g2) = views(7, 4), guides(7)
    expected = gradients(guided("infonce", margin=3.0), z1, z2, guide=(g1, g2))
    assert expected[0].item() == 0
    partly = gradients(guided("ntxent", margin=0.2), z1, z2, guide=(g1, g2))
    for value, grad, of_part, grad_of_part in workers(world_size).run(_own_part, z1, z2, g1, g2):
        assert value == 0
        assert not grad.any()
        torch.testing.assert_close(of_part, partly[0], rtol=1e-10, atol=1e-12)
        assert grad_of_part.isfinite().all()


def _own_part(z1: Tensor, z2: Tensor, g1: Tensor, g2: Tensor) -> tuple[Any, ...]:
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    own = ([slice(0, 2), slice(2, 7)] if size == 2 else [slice(0, 3), slice(3, 4), slice(4, 7)])[rank]
    guide = (g1[own], g2[own])
    everything = gradients(guided("infonce", margin=3.0, gather=True), z1[own], z2[own], guide=guide)
    part = gradients(guided("ntxent", margin=0.2, gather=True), z1[own], z2[own], guide=guide)
    return everything[0].item(), everything[1], part[0], part[1]


def test_presets() -> None:
    (z1, z2), guide = views(6, 4), guides(6)
    gist = hs.create_objective("guided", preset="gist")
    base = {"name": "infonce", "pool": "all", "temperature": 0.01}
    assert gist(z1, z2, guide=guide).item() == guided(base)(z1, z2, guide=guide).item()
    qwen3 = hs.create_objective("guided", preset="qwen3")
    assert (qwen3.source, qwen3.margin, tuple(qwen3.reads)) == ("self", -0.1, ("cross", "same", "extra"))


def test_qwen3_by_loops() -> None:
    """A column counts unless it is more similar than the positive by more than 0.1, or its document is the anchor's;
    documents among themselves are not judged."""
    (z1, z2), (extra, _) = views(8, 3), views(4, 3, seed=2)
    ids, extra_ids = [0, 1, 2, 0, -1, 5, 5, -1], [5, -1, 9, 0]
    x, y, more = (normalize(z) for z in (z1, z2, extra))
    losses, dropped = [], 0
    for i in range(8):
        most = x[i] @ y[i] + 0.1
        others = [j for j in range(8) if j != i and (ids[j] != ids[i] or ids[i] < 0)]
        judged = [x[i] @ y[j] for j in others] + [x[i] @ x[j] for j in others]
        judged += [x[i] @ n for n, k in zip(more, extra_ids, strict=True) if k != ids[i] or k < 0]
        kept = [s for s in judged if s <= most]
        dropped += len(judged) - len(kept)
        logits = torch.stack([x[i] @ y[i], *kept, *(y[i] @ y[j] for j in others)]) / 0.1
        losses.append(logits.logsumexp(dim=0) - logits[0])
    assert 0 < dropped < 8 * 8
    qwen3 = hs.create_objective("guided", preset="qwen3")
    loss = qwen3(z1, z2, negatives=extra, ids=torch.tensor(ids), ids_negatives=torch.tensor(extra_ids))
    assert loss.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-10)


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (lambda: guided("infonce"), {}, "guided needs guide: give guide= in its call"),
        (lambda: guided("vicreg"), {}, "guided's base must have negatives that can be dropped"),
        (lambda: guided("infonce", reads=("cros",)), {}, "guided's reads are of cross, same, other, extra, not 'cros'"),
        (lambda: guided("infonce", source="self"), {"guide": torch.ones(6, 2)}, r"source='self'\) takes no guide"),
        (lambda: guided("infonce"), {"guide": torch.ones(5, 2)}, "guide must have 6 rows"),
        (lambda: guided("infonce"), {"guide": (torch.ones(6, 2), torch.ones(6, 3))}, "differ in dimension: 2 and 3"),
        (lambda: guided("infonce"), {"guide": (torch.ones(6, 2),)}, "one for each of the 2 views"),
        (
            lambda: guided("infonce"),
            {"guide": torch.ones(6, 2), "negatives": torch.ones(2, 4, dtype=torch.float64)},
            "negatives and guide_negatives come together",
        ),
    ],
)
def test_bad_input_gets_one_sentence(make: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()(*views(6, 4), **given)
