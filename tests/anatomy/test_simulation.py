"""The simulated angles reproduce the reference values of Li's set-up."""

from __future__ import annotations

from math import pi

import pytest
import torch

from hypersphere.anatomy import (
    AngleGrid,
    hardest_share,
    list_closed_forms,
    mean_dissipation,
    simulate,
)

# (μ_pos, μ_neg) -> mean dissipation of InfoNCE, ArcCon, MPT, MET (4000 batches of 127 negatives)
REFERENCE = {
    (pi / 20, pi / 20): (0.99, 1.00, 1.00, 1.00),
    (pi / 20, pi / 4): (0.51, 0.70, 1.00, 0.92),
    (pi / 20, pi / 3): (0.03, 0.06, 0.05, 0.01),
    (pi / 6, pi / 4): (0.91, 0.99, 1.00, 1.00),
    (pi / 6, pi / 3): (0.25, 0.68, 0.98, 1.00),
    (pi / 6, 0.4 * pi): (0.01, 0.08, 0.02, 0.56),
    (pi / 6, pi / 2): (0.00, 0.00, 0.00, 0.00),
    (pi / 4, pi / 2): (0.00, 0.01, 0.00, 0.48),
    (pi / 3, pi / 2): (0.06, 0.47, 0.40, 1.00),
}
DISSIPATING = {"infonce", "arccon", "dcl_plus", "mpt", "met", "mat", "triplet", "paradigm", "mmhe", "mmhs", "mbarlow",
               "mvicreg"}  # fmt: skip
SHARES = {0.05: (0.041, 0.088, 0.148, 0.230, 0.172), 0.01: (0.42, 0.66, 0.75, 0.81, 0.78)}


def cell(name: str, positive: float, negative: float, measure: object = mean_dissipation, **params: float) -> float:
    grid = AngleGrid((positive, positive), (negative, negative), points=1, batches=4000)
    return simulate(name, grid, measure, **params).item()  # type: ignore[arg-type]


@pytest.mark.parametrize(("where", "expected"), REFERENCE.items())
def test_mean_dissipation_is_the_reference_within_sampling_error(where: tuple[float, float], expected: tuple) -> None:
    for name, value in zip(("infonce", "arccon", "mpt", "met"), expected, strict=True):
        assert cell(name, *where) == pytest.approx(value, abs=0.02)


@pytest.mark.parametrize("temperature", SHARES)
def test_share_of_the_hardest_negative_unfiltered(temperature: float) -> None:
    means = (pi / 6, pi / 4, pi / 3, pi / 2, 3 * pi / 4)
    for mean, share in zip(means, SHARES[temperature], strict=True):
        simulated = cell("infonce", pi / 6, mean, hardest_share, temperature=temperature)
        assert simulated == pytest.approx(share, abs=0.015)


def test_the_grid_is_that_of_a_plain_loop() -> None:
    """Same draws, cell by cell in float64 with the definition of InfoNCE's dissipation."""
    grid = AngleGrid(points=4, batches=300, negatives=15, seed=3)
    simulated = simulate("infonce", grid)
    generator = torch.Generator().manual_seed(3)
    positive_means, negative_means = grid.means()
    for i, mean in enumerate(positive_means):
        positive = mean + 0.05 * torch.randn(4, 300, generator=generator).double()
        noise = torch.randn(4, 300, 15, generator=generator).double()
        for j, other in enumerate(negative_means):
            powers = torch.exp(torch.cos(other + 0.1 * noise[j]) / 0.05).sum(dim=1)
            own = torch.exp(torch.cos(positive[j]) / 0.05)
            assert simulated[i, j].item() == pytest.approx((powers / (own + powers)).mean().item(), abs=1e-4)


def test_the_same_seed_gives_the_same_grid_and_progress_is_told() -> None:
    grid = AngleGrid(points=5, batches=20, negatives=7)
    told: list[tuple[int, int]] = []
    one = simulate("met", grid, progress=lambda done, total: told.append((done, total)))
    assert torch.equal(one, simulate("met", grid))
    assert not torch.equal(one, simulate("met", AngleGrid(points=5, batches=20, negatives=7, seed=1)))
    assert told[-1] == (5, 5)
    assert AngleGrid().angles == 1_280_000_000


@pytest.mark.parametrize("name", list_closed_forms())
def test_every_objective_with_a_closed_form_can_be_simulated(name: str) -> None:
    grid = AngleGrid(points=4, batches=30, negatives=15)
    params = {"dim": 16} if name == "vicreg_surrogate" else {}
    gate, share = (simulate(name, grid, measure, **params) for measure in (mean_dissipation, hardest_share))
    assert ((gate >= 0) & (gate <= 1)).all()
    assert ((share > 1 / 16) & (share <= 1 + 1e-6)).all()  # the largest of fifteen weights
    # far negatives end a gradient that can end
    assert (gate[0, -1] < 0.01) == (name in DISSIPATING)


@pytest.mark.parametrize(
    "name, params, total",
    [("mhe", {"weight": 3.0}, 12.0), ("mmhe", {"temperature": 0.2}, 10.0), ("mvicreg", {}, 1.0), ("mbarlow", {}, 1.0)],
)
def test_weights_of_coupled_anchors_share_what_a_batch_has(name: str, params: dict, total: float) -> None:
    """Summed over all pairs of a batch, MHE's weights are 4ν, mMHE's 2/τ, those of mBarlow and mVICReg 1."""
    grid = AngleGrid((0.5, 0.5), (1.2, 1.2), points=1, batches=500, negatives=15)
    mean = simulate(name, grid, lambda components: components.weight.sum(dim=-1), **params)
    assert 16 * mean.item() == pytest.approx(total, rel=1e-5)
    spread = simulate(name, grid, lambda components: components.weight.sum(dim=-1).square(), **params)
    assert spread.item() > 1.001 * mean.item() ** 2  # anchors with harder negatives have more of it
