"""Mixed negatives beside plain loops, their bounds, and the bases that mixup takes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import unit
from hypersphere.testing.example import views
from tests import reference as ref
from tests.theory import SLACK, batches, gradients, per_anchor, without_diagonal


def mixed_vectors(x: ref.Matrix, y: ref.Matrix, both: bool, kind: str, mix: float, normalize: bool) -> ref.Matrix:
    """One mix per anchor x_i: of its two hardest negatives, or of its positive and the next instance's vector."""
    mixed = []
    for i, anchor in enumerate(x):
        if kind == "positive":
            first, second = y[i], y[(i + 1) % len(y)]
        else:
            keys = [v for view in ((y, x) if both else (y,)) for j, v in enumerate(view) if j != i]
            first, second = sorted(keys, key=lambda v, a=anchor: -ref.dot(a, v))[:2]
        vector = [mix * a + (1 - mix) * b for a, b in zip(first, second, strict=True)]
        mixed.append([v / ref.norm(vector) for v in vector] if normalize else vector)
    return mixed


def mixup_loops(
    z1: ref.Rows, z2: ref.Rows, both: bool, mixtures: list[ref.Matrix] | None = None, tau: float = 0.3, **how: Any
) -> float:
    """InfoNCE, or NT-Xent if ``both``, with a mix in each denominator; ``mixtures`` holds them still."""
    h, g = ref.unit_rows(z1), ref.unit_rows(z2)
    losses = []
    for turn, (x, y) in enumerate([(h, g), (g, h)] if both else [(h, g)]):
        mixed = mixed_vectors(x, y, both, **how) if mixtures is None else mixtures[turn]
        for i, anchor in enumerate(x):
            logits = [ref.dot(anchor, key) / tau for key in y] + [ref.dot(anchor, mixed[i]) / tau]
            logits += [ref.dot(anchor, x[j]) / tau for j in range(len(x)) if both and j != i]
            losses.append(ref.logsumexp(logits) - logits[i])
    return ref.mean(losses)


MIXUPS = list(itertools.product(["infonce", "ntxent"], ["negatives", "positive"], [False, True]))
MIXUP_IDS = [f"{base}-{kind}{'-unit' * normalize}" for base, kind, normalize in MIXUPS]


@pytest.mark.parametrize(("base", "kind", "normalize"), MIXUPS, ids=MIXUP_IDS)
def test_mixup_equals_plain_loops_and_its_mix_carries_no_gradient(base: str, kind: str, normalize: bool) -> None:
    how = {"kind": kind, "mix": 0.3, "normalize": normalize}
    both = base == "ntxent"
    objective = hs.create_objective("mixup", base={"name": base, "temperature": 0.3}, **how)
    z1, z2 = views(5, 4)
    assert objective(z1, z2).item() == pytest.approx(mixup_loops(z1, z2, both, **how), rel=1e-12)
    h, g = ref.unit_rows(z1), ref.unit_rows(z2)
    still = [mixed_vectors(h, g, both, **how), mixed_vectors(g, h, both, **how)]
    frozen = ref.finite_difference(lambda x, y: mixup_loops(x, y, both, still), z1.numpy(), z2.numpy())
    moving = ref.finite_difference(lambda x, y: mixup_loops(x, y, both, **how), z1.numpy(), z2.numpy())
    for grad, expected in zip(gradients(objective, z1, z2), frozen, strict=True):
        np.testing.assert_allclose(grad.numpy(), expected, atol=1e-8)
    assert np.abs(np.asarray(frozen[1]) - np.asarray(moving[1])).max() > 1e-3


@pytest.mark.parametrize("rows", [0, 3], ids=["dense", "streamed"])
@pytest.mark.parametrize("kind", ["negatives", "positive"])
def test_what_is_mixed_is_chosen_from_the_negatives_that_ids_leave(kind: str, rows: int) -> None:
    """Rows 0, 4 and 6 are followed by a row of their own id."""
    z1, z2 = views(7, 4)
    ids, extra, extra_ids = [0, 0, 3, -1, 3, 3, 0], views(3, 4, seed=5)[0], [0, -1, 8]
    h, g, more = (ref.unit_rows(z) for z in (z1, z2, extra))
    losses = []
    for i, anchor in enumerate(h):
        others = [j % 7 for j in range(i + 1, i + 7) if ids[j % 7] != ids[i] or ids[i] < 0]
        first, second = sorted(others, key=lambda j, a=anchor: -ref.dot(a, g[j]))[:2]
        first, second = (g[i], g[others[0]]) if kind == "positive" else (g[first], g[second])
        mixed = [0.3 * a + 0.7 * b for a, b in zip(first, second, strict=True)]
        keys = [
            g[i],
            *(g[j] for j in others),
            *(n for n, k in zip(more, extra_ids, strict=True) if k != ids[i] or k < 0),
            mixed,
        ]
        logits = [ref.dot(anchor, key) / 0.3 for key in keys]
        losses.append(ref.logsumexp(logits) - logits[0])
    objective = hs.create_objective("mixup", base={"name": "infonce", "temperature": 0.3}, kind=kind, mix=0.3)
    with hs.streaming(rows) if rows else hs.dense():
        loss = objective(z1, z2, negatives=extra, ids=torch.tensor(ids), ids_negatives=torch.tensor(extra_ids))
    assert loss.item() == pytest.approx(ref.mean(losses), rel=1e-12)


def mixed_similarity(z1: Tensor, z2: Tensor, **params: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Anchor by anchor: h_i·mix read off e^{L_mix} - e^L at temperature 1, the positive and the hardest cosine."""
    base = {"name": "infonce", "temperature": 1.0, "reduction": "none"}
    more = hs.create_objective("mixup", base=base, reduction="none", **params)(z1, z2)
    s = unit(z1) @ unit(z2).T
    plain = per_anchor("infonce", z1, z2, temperature=1.0)
    return (more.exp() - plain.exp()).log() + s.diagonal(), s.diagonal(), without_diagonal(s, -2.0).amax(dim=1)


@settings(deadline=None)
@given(batches(), st.floats(0.0, 1.0))
def test_an_unnormalised_mix_of_negatives_is_never_harder_than_the_hardest(
    batch: tuple[Tensor, Tensor], mix: float
) -> None:
    similarity, _, hardest = mixed_similarity(*batch, mix=mix)
    assert (similarity <= hardest + 1e-9).all()


def test_a_normalised_mix_of_negatives_is_sometimes_harder() -> None:
    harder = []
    for seed in range(40):
        similarity, _, hardest = mixed_similarity(*views(8, 4, seed), mix=0.5, normalize=True)
        harder += (similarity > hardest + 1e-9).tolist()
    assert 0.05 < sum(harder) / len(harder) < 0.95


@settings(deadline=None)
@given(batches(), st.floats(0.02, 2.0), st.floats(0.0, 0.49))
def test_the_bounds_of_mixup_hold_for_every_anchor(batch: tuple[Tensor, Tensor], tau: float, mix: float) -> None:
    """n+1 negatives; (1-λ) in place of 1 where a mix with the positive is the hardest of them."""
    base = {"name": "infonce", "temperature": tau}
    total = tau * math.log(len(batch[0]))
    for kind in ("negatives", "positive"):
        loss = hs.create_objective("mixup", base=base, reduction="none", kind=kind, mix=mix)(*batch)
        similarity, positive, hardest = mixed_similarity(*batch, kind=kind, mix=mix)
        share = torch.where((similarity > hardest) & (kind == "positive"), 1 - mix, 1.0)
        bound = math.log(2) + share / tau * torch.relu(hardest - positive + total / share)
        assert (loss <= bound + SLACK).all()


@pytest.mark.parametrize("base", ["barlow", "vicreg", {"name": "cloa", "base": "vicreg", "num_classes": 2, "dim": 4}])
def test_a_base_without_negatives_is_refused_with_the_reason(base: Any) -> None:
    with pytest.raises(ValueError, match="compares features, not pairs: it has no negatives to mix"):
        hs.create_objective("mixup", base=base)


def test_bases_whose_negatives_cannot_be_known_are_refused() -> None:
    foreign = hs.create_objective("cloa", base=torch.nn.CosineEmbeddingLoss(), num_classes=2, dim=4)
    with pytest.raises(ValueError, match="cloa's base is a CosineEmbeddingLoss, whose negatives are not known"):
        hs.create_objective("mixup", base=foreign)
    for base in (torch.nn.Identity(), {"name": "mixup"}):
        with pytest.raises(ValueError, match="needs one of hypersphere's other objectives as its base"):
            hs.create_objective("mixup", base=base)


def test_a_base_changed_later_is_seen_and_shared() -> None:
    z1, z2 = views(6, 4)
    base = hs.create_objective("hyperbolic", learnable=True)
    mixup = hs.create_objective("mixup", base=base)
    base.weight, mixup.mix = 3.0, 0.4
    fresh = hs.create_objective("mixup", base={"name": "hyperbolic", "weight": 3.0}, mix=0.4)
    assert mixup(z1, z2).item() == pytest.approx(fresh(z1, z2).item(), rel=1e-6)
    mixup(z1, z2).backward()
    assert base.log_temperature.grad.abs() > 0
    assert set(mixup.state_dict()) == {f"base.{name}" for name in base.state_dict()}
