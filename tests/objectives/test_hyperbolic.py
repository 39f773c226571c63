"""Distances near the rim of the ball keep their digits in float32: against fifty digits of mpmath."""

from __future__ import annotations

from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import hypersphere as hs
from hypersphere.testing.example import views

TAU = 0.5


def near_the_rim(spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of norm about 2.2, a little apart from each other: most of the way to the rim, in one corner of the ball."""
    generator = torch.Generator().manual_seed(0)
    centre = torch.tensor([2.0, -0.7, 0.5])
    return tuple(centre + spread * torch.randn(3, 3, generator=generator) for _ in range(2))  # type: ignore[return-value]


def point(row: list[mp.mpf], curvature: mp.mpf) -> list[mp.mpf]:
    length = mp.sqrt(mp.fsum(v * v for v in row))
    root = mp.sqrt(curvature)
    radius = mp.tanh(root * min(length, mp.mpf("2.3"))) / root
    return [radius * v / length for v in row]


def distance(x: list[mp.mpf], y: list[mp.mpf], c: mp.mpf) -> mp.mpf:
    apart = mp.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    room = (1 - c * mp.fsum(v * v for v in x)) * (1 - c * mp.fsum(v * v for v in y))
    return mp.acosh(1 + 2 * c * apart / room) / mp.sqrt(c)


def ball_infonce(z1: list[list[mp.mpf]], z2: list[list[mp.mpf]], curvature: float) -> mp.mpf:
    c = mp.mpf(curvature)
    x, y = ([point(row, c) for row in z] for z in (z1, z2))
    losses = []
    for i, anchor in enumerate(x):
        logits = [-distance(anchor, key, c) / mp.mpf(TAU) for key in y]
        losses.append(mp.log(mp.fsum(mp.exp(v - logits[i]) for v in logits)))
    return mp.fsum(losses) / len(losses)


def exact(z: torch.Tensor) -> list[list[mp.mpf]]:
    return [[mp.mpf(v) for v in row] for row in z.double().tolist()]


@pytest.mark.parametrize("context", [hs.dense, lambda: hs.streaming(3)], ids=["dense", "streaming"])
@pytest.mark.parametrize("curvature", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("spread", [0.003, 0.05])
def test_float32_rows_near_the_rim_lose_no_digits(spread: float, curvature: float, context: object) -> None:
    z1, z2 = near_the_rim(spread)
    objective = hs.create_objective("hyperbolic", temperature=TAU, curvature=curvature, weight=1.0)
    a = z1.clone().requires_grad_()
    with mp.workdps(50), context():  # type: ignore[operator]
        ball = objective.terms(a, z2)["ball"]
        (grad,) = torch.autograd.grad(ball, a)
        rows, keys = exact(z1), exact(z2)
        assert ball.dtype == grad.dtype == torch.float32
        assert ball.item() == pytest.approx(float(ball_infonce(rows, keys, curvature)), rel=3e-7)
        step = mp.mpf(10) ** -15
        differences = np.zeros(z1.shape)
        for i in range(len(rows)):
            for k in range(len(rows[0])):
                sides = []
                for sign in (1, -1):
                    moved = [list(row) for row in rows]
                    moved[i][k] += sign * step
                    sides.append(ball_infonce(moved, keys, curvature))
                differences[i, k] = float((sides[0] - sides[1]) / (2 * step))
    np.testing.assert_allclose(grad.numpy(), differences, rtol=1e-6, atol=1e-6 * np.abs(differences).max())


def test_a_bare_product_in_float32_would_lose_them() -> None:
    """Why the points of the hyperboloid are in float64."""
    z1, z2 = near_the_rim(0.003)
    ball = hs.create_objective("hyperbolic", temperature=TAU).ball
    p, q = ball.rows(z1), ball.rows(z2)
    exactly, roughly = (
        ball.distance((p.to(dtype) * ball.metric(p).to(dtype)) @ q.to(dtype).T) for dtype in (p.dtype, torch.float32)
    )
    assert ((roughly / exactly - 1).abs() > 1e-3).any()


def test_one_temperature_is_kept_under_one_name(tmp_path: Path) -> None:
    objective = hs.create_objective("hyperbolic", learnable=True, temperature=0.3)
    assert list(objective.state_dict()) == ["log_temperature"]
    save_file(objective.state_dict(), tmp_path / "kept.safetensors")
    for assign in (False, True):
        other = hs.create_objective("hyperbolic", learnable=True)
        other.load_state_dict(load_file(tmp_path / "kept.safetensors"), assign=assign)
        assert len(list(other.parameters())) == 1
        assert other.temperature.item() == pytest.approx(0.3)
        other(*views(5, 3)).backward()
        assert other.log_temperature.grad is not None
        assert other(*views(5, 3)).item() == pytest.approx(objective(*views(5, 3)).item())
    wrapped = nn.ModuleDict({"a": hs.create_objective("cloa", base=objective, num_classes=2, dim=3)})
    assert [name for name in wrapped.state_dict() if "temperature" in name] == ["a.base.log_temperature"]
    wrapped.load_state_dict(wrapped.state_dict())


def test_hyperbolic_learns_one_temperature_for_both_parts() -> None:
    objective = hs.create_objective("hyperbolic", learnable=True)
    assert len(list(objective.parameters())) == 1
    hs.testing.assert_gradient_exact(objective)
    hs.testing.assert_streams_exactly(objective)
