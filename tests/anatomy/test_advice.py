"""Advice puts the edge of dissipation where it is asked for, as a dissection with it finds."""

from __future__ import annotations

import math

import pytest
import torch

import hypersphere as hs
from hypersphere.anatomy import advise
from hypersphere.anatomy.advice import list_advice
from hypersphere.objectives.registry import objective_class
from hypersphere.testing.example import views

COVERED = [name for name, reason in list_advice().items() if not reason]


def near_pairs() -> tuple[torch.Tensor, torch.Tensor]:
    z1, z2 = views(60, 8)
    return z1, z1 + 0.5 * z2


def test_advice_recovers_the_planted_edge() -> None:
    """Views in which every negative is orthogonal and the positive at a chosen angle."""
    for cosine in (0.3, 0.6, 0.9):
        x = torch.eye(65, dtype=torch.float64)[:64]
        y = cosine * x + math.sqrt(1 - cosine**2) * torch.eye(65, dtype=torch.float64)[64]
        assert hs.anatomy.advise("mpt", x, y).value == pytest.approx(cosine)
        planted = math.sqrt(2) - math.sqrt(2 - 2 * cosine)
        assert hs.anatomy.advise("met", x, y).value == pytest.approx(planted)
        assert hs.anatomy.advise("mat", x, y).value == pytest.approx(math.pi / 2 - math.acos(cosine))
        advice = hs.anatomy.advise("infonce", x, y)
        assert advice.value * math.log(63) == pytest.approx(cosine, rel=1e-6)
        edge = hs.dissect(hs.create_objective("infonce", temperature=advice.value), x, y)
        assert edge.dissipation.median().item() == pytest.approx(0.5, abs=1e-6)
        assert f"temperature = {advice.value:.4g}" in str(advice)


@pytest.mark.parametrize("name", COVERED)
@pytest.mark.parametrize("quantile", [0.3, 0.7])
def test_a_dissection_finds_the_edge_where_advice_puts_it(name: str, quantile: float) -> None:
    z1, z2 = near_pairs()
    advice = advise(name, z1, z2, quantile)
    objective = hs.create_objective(name, **{advice.parameter: advice.value})
    labels = torch.full((60,), -1) if name == "supcon" else None
    gates = hs.dissect(objective, z1, z2, labels).dissipation
    assert (gates > 0.5).double().mean().item() == pytest.approx(quantile, abs=0.02)
    usual = hs.dissect(hs.create_objective(name), z1, z2, labels).dissipation
    assert (usual <= 0.5).double().mean().item() == pytest.approx(advice.past_default, abs=0.02)


def test_every_objective_with_a_temperature_or_margin_has_advice_or_a_reason() -> None:
    known = list_advice()
    for name in hs.list_objectives():
        if {"temperature", "margin"} & set(objective_class(name).settings()):
            assert name in known
    z1, z2 = near_pairs()
    for name, reason in known.items():
        if reason:
            with pytest.raises(ValueError, match=f"no advice for {name}: "):
                advise(name, z1, z2)


def test_batches_have_as_many_negatives_as_they_would_in_training() -> None:
    z1, z2 = near_pairs()
    whole, batches = advise("infonce", z1, z2), advise("infonce", z1, z2, batch_size=10)
    assert (whole.negatives, batches.negatives) == (59, 9) and len(batches.gaps) == 60
    assert advise("ntxent", z1, z2, batch_size=10).negatives == 18
    assert batches.value > whole.value  # fewer negatives: the same gap needs a higher temperature
    torch.testing.assert_close(advise("met", z1, z2, batch_size=500).gaps, advise("met", z1, z2).gaps)
    rows = torch.randperm(60, generator=torch.Generator().manual_seed(0))[:20]
    gaps = advise("mpt", z1[rows], z2[rows]).gaps
    assert set(gaps.tolist()) <= set(advise("mpt", z1, z2, batch_size=20).gaps.tolist())


def test_untrained_embeddings_are_warned_of() -> None:
    z1, z2 = near_pairs()
    plain, cone = advise("met", z1, z2), advise("met", z1 + 5, z2 + 5)
    assert "say little about the temperature" in str(plain) and "look untrained" not in str(plain)
    assert cone.cosine > 0.9 and "these embeddings look untrained" in str(cone)


@pytest.mark.parametrize("sizes", [((12, 6), (9, 6)), ((1, 6), (1, 6)), ((6,), (6,))])
def test_advice_needs_two_views_of_one_shape(sizes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"two views of the same shape \(N, D\) and at least two rows"):
        advise("mpt", *(torch.ones(size) for size in sizes))


def test_bad_questions_get_one_sentence() -> None:
    for name, sentence in (("infnce", "did you mean 'infonce'"), ("kcl", "neither a temperature nor a margin")):
        with pytest.raises(ValueError, match=sentence):
            advise(name, torch.eye(3), torch.eye(3))
    with pytest.raises(ValueError, match="with one negative"):
        advise("infonce", torch.eye(2), torch.eye(2))
    with pytest.raises(ValueError, match="not closer than the negatives"):
        advise("mpt", torch.eye(3), -torch.eye(3))
    with pytest.raises(ValueError, match="between 0 and 1"):
        advise("mpt", torch.eye(3), torch.eye(3), quantile=2)
    with pytest.raises(ValueError, match="at least two rows, not 1"):
        advise("mpt", torch.eye(3), torch.eye(3), batch_size=1)
