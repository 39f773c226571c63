"""An objective at a collapsed batch and beside it: gradient, curvature, and where gradient descent goes from there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hypersphere.diagnostics.measures import effective_rank
from hypersphere.geometry import uniform_points, unit
from hypersphere.objectives import create_objective, list_objectives
from hypersphere.studies.reproduce.cloa2024.curvature import SURROGATES

N, DIM = 8, 8
BESIDE = 1e-3  # how far rows beside a collapsed batch are from it; the two views of an instance differ by a tenth of it
RATE = 0.1  # a gradient of typical length moves rows by this much (root of the mean square); longer ones are cut to it
GROWN = 10.0  # a distance from the collapsed batch that has grown so many times has left it
MOVED = 0.1  # rows that keep their distance but have moved by this much move as a whole
ZERO = 1e-7  # of the typical gradient; a shorter gradient counts as zero
FLAT = 1e-5  # of the largest curvature; a smaller one counts as zero
SLICES = 256  # random directions of sigreg and visreg, instead of 1024 and 4096: enough in 8 dimensions
CLASSES = 4

# What a call needs beside two views; every objective not named here takes its defaults.
SETTINGS: dict[str, dict[str, Any]] = {
    "cloa": {"base": "ntxent", "num_classes": CLASSES, "dim": DIM},
    "nonl": {"num_classes": CLASSES, "dim": DIM},
    "ntce": {"num_classes": CLASSES, "dim": DIM},
    "sigreg": {"num_slices": SLICES},
    "visreg": {"num_slices": SLICES},
}
Loss = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Subject:
    """An objective as a function of both views stacked (2N, D), and the typical length of its gradient.

    raw: lengths of rows matter. turns: a rotation of all rows changes nothing, so that all directions out of a span are
    alike. typical: the median over batches of random unit rows, the views independent.
    """

    name: str
    loss: Loss
    raw: bool
    turns: bool
    typical: float


def subject(name: str, **settings: Any) -> Subject:
    """A registered objective with its defaults; labels (4 classes), scores and a guide where it reads them."""
    objective = create_objective(name, **{**SETTINGS.get(name, {}), **settings}).double().eval()
    given: dict[str, Any] = {}
    if "guide" in objective.needs:
        given["guide"] = (uniform_points(N, 4, 5), uniform_points(N, 4, 6))
    if "scores" in objective.needs:
        given["scores"] = torch.linspace(0, 1, N, dtype=torch.float64)
    labelled = objective.labelled or "labels" in objective.needs or name == "cloa"
    labels = torch.arange(N) * CLASSES // N if labelled else None

    def loss(z: Tensor) -> Tensor:
        value: Tensor = objective(z[: len(z) // 2], z[len(z) // 2 :], labels, **given)
        return value

    batches = [uniform_points(2 * N, DIM, seed) for seed in range(9)]
    typical = float(torch.stack([gradient(loss, z).norm() for z in batches]).median())
    turned = batches[0] @ torch.linalg.qr(uniform_points(DIM, DIM, 7)).Q
    turns = bool(torch.isclose(loss(batches[0]), loss(turned), rtol=1e-9))
    return Subject(name, loss, bool(objective.raw_rows), turns, typical)


def gradient(loss: Loss, z: Tensor) -> Tensor:
    z = z.detach().clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(z), z)
    return grad


@dataclass(frozen=True)
class Start:
    """A collapsed batch: both views (2N, D), equal, within the span of the orthonormal columns (D, r); r = 0 for the
    origin, which moves as a whole by a shift."""

    name: str
    rows: Tensor
    span: Tensor

    @property
    def off(self) -> Tensor:
        """Orthonormal columns (D, D-r) that are orthogonal to the span."""
        return _complement(self.span)

    @property
    def rank(self) -> int:
        return self.span.shape[1]

    @property
    def apart(self) -> Tensor:
        """Orthonormal columns (2N, …): coefficients of the rows in a motion that is none of the batch as a whole."""
        coordinates = self.rows @ self.span if self.rank else torch.ones(2 * N, 1, dtype=torch.float64)
        return _complement(coordinates)

    def parts(self, grad: Tensor) -> dict[str, float]:
        """Lengths of three orthogonal parts of a gradient (2N, D).

        leaving: rows leave the span, each in its own way; whole: the span turns (the origin: is shifted);
        within: rows move inside the span, or change their length.
        """
        across = grad @ self.off
        leaving = self.apart.T @ across
        total, outside = float(grad.square().sum()), float(across.square().sum())
        inside = float(leaving.square().sum())
        return {"leaving": math.sqrt(inside), "whole": math.sqrt(max(0.0, outside - inside)),
                "within": math.sqrt(max(0.0, total - outside))}  # fmt: skip

    def distance(self, z: Tensor) -> float:
        """Root of the mean squared distance of rows from the nearest batch that is collapsed in this way."""
        if self.name in ("point", "origin"):
            return float((z - z.mean(dim=0)).square().sum(dim=1).mean().sqrt())
        return float((torch.linalg.svdvals(z)[self.rank :].square().sum() / len(z)).sqrt())

    def beside(self, raw: bool, distance: float = BESIDE) -> Tensor:
        """Every instance moved by ``distance`` in a random direction, each view by a tenth of that in another."""
        moved = self.rows + distance * uniform_points(N, DIM, 1).repeat(2, 1)
        moved = moved + distance / 10 * uniform_points(2 * N, DIM, 2)
        return moved if raw else unit(moved)


def _complement(columns: Tensor) -> Tensor:
    """Orthonormal columns orthogonal to the given ones, which are independent: (n, r) -> (n, n-r)."""
    basis: Tensor = torch.linalg.qr(columns, mode="complete").Q
    return basis[:, columns.shape[1] :]


def starts() -> list[Start]:
    """The collapsed batches; "origin" concerns objectives of raw rows alone."""
    frame = torch.linalg.qr(uniform_points(DIM, DIM, 3)).Q
    u, plane = frame[:, :1], frame[:, :2]
    angles = 2 * math.pi * torch.rand(N, generator=torch.Generator().manual_seed(4), dtype=torch.float64)

    def on_line(signs: str) -> Tensor:
        values = torch.tensor([1.0 if sign == "+" else -1.0 for sign in signs * 2], dtype=torch.float64)
        return torch.outer(values, u[:, 0])

    circle = torch.stack([angles.cos(), angles.sin()], dim=1) @ plane.T
    return [
        Start("point", on_line("+" * N), u),
        Start("line", on_line("+++++-+-"), u),
        Start("pair", on_line("++++----"), u),
        Start("plane", circle.repeat(2, 1), plane),
        Start("origin", torch.zeros(2 * N, DIM, dtype=torch.float64), torch.zeros(DIM, 0, dtype=torch.float64)),
    ]


def curvatures(subject: Subject, start: Start, step: float = 1e-5) -> tuple[Tensor, bool]:
    """Real parts of the eigenvalues of the gradient's derivative, smallest first, among directions that leave; and
    whether the gradient is differentiable there. By central differences, which see stopped gradients and kinks.

    If rotations change nothing, the derivative acts alike in every direction out of the span: one is enough.
    """
    apart, off = start.apart, start.off[:, :1] if subject.turns else start.off

    def change(left: Tensor, right: Tensor, step: float) -> Tensor:
        move = step * torch.outer(left, right)
        ahead, behind = (gradient(subject.loss, start.rows + sign * move) for sign in (1, -1))
        return (apart.T @ ((ahead - behind) / (2 * step)) @ off).flatten()

    jacobian = torch.stack([change(left, right, step) for left in apart.T for right in off.T], dim=1)
    generator = torch.Generator().manual_seed(6)
    size, smooth = float(jacobian.abs().max()), True
    for _ in range(3):
        left, right = (torch.randn(n, generator=generator, dtype=torch.float64) for n in (apart.shape[1], off.shape[1]))
        left, right = left / left.norm(), right / right.norm()
        linear, coarse = jacobian @ torch.outer(left, right).flatten(), change(apart @ left, off @ right, 10 * step)
        smooth &= float((linear - coarse).abs().max()) <= 1e-3 * max(size, 1e-6)
    return torch.linalg.eigvals(jacobian).real.sort().values, smooth


def descend(subject: Subject, z: Tensor, steps: int, largest: float = 0.0) -> Tensor:
    """Gradient descent with a fixed rate; rows stay on the sphere unless their lengths matter.

    ``largest``: the largest curvature; the rate is at most its inverse, so that no step goes beyond a minimum.
    """
    rate = min(RATE * math.sqrt(len(z)) / subject.typical, 1 / largest if largest > 0 else math.inf)
    for _ in range(steps):
        grad = gradient(subject.loss, z)
        z = z - rate * grad * min(1.0, subject.typical / max(float(grad.norm()), 1e-300))
        z = z if subject.raw else unit(z)
    return z


def kind_of(row: dict[str, Any], plane: bool) -> str:
    """Minimum, saddle, maximum, flat, kink or not stationary; in a plane only motions out of it count."""
    moved = math.hypot(row["leaving"], row["whole"], 0.0 if plane else row["within"])
    if moved > ZERO:
        return "not stationary"
    if not row["differentiable"]:
        return "kink"
    low, high = row["smallest_curvature"], row["largest_curvature"]
    size = max(abs(low), abs(high))
    if size < FLAT:
        return "flat"
    if low < -FLAT * size:
        return "saddle" if high > FLAT * size else "maximum"
    return "minimum"


def examine(subject: Subject, start: Start, steps: int) -> dict[str, Any]:
    """One objective at one collapsed batch. Gradients and curvatures are relative to the typical gradient.

    The verdict "jumps": the batch has left, but to a higher loss, as by steps over a kink. The values of surrogates,
    whose gradients are stopped in places, do not count.
    """
    at = gradient(subject.loss, start.rows)
    beside = start.beside(subject.raw)
    near = gradient(subject.loss, beside)
    spectrum, smooth = curvatures(subject, start)
    end = descend(subject, beside, steps, float(spectrum[-1]) if smooth else 0.0)
    before, after = start.distance(beside), start.distance(end)
    row: dict[str, Any] = {
        "objective": subject.name,
        "start": start.name,
        "typical_gradient": subject.typical,
        "gradient": float(at.norm()),
        "relative": float(at.norm()) / subject.typical,
        **{part: length / subject.typical for part, length in start.parts(at).items()},
        "beside": float(near.norm()) / subject.typical,
        "beside_share_leaving": start.parts(near)["leaving"] ** 2 / max(float(near.square().sum()), 1e-300),
        "smallest_curvature": float(spectrum[0]) / subject.typical,
        "largest_curvature": float(spectrum[-1]) / subject.typical,
        "differentiable": smooth,
        "loss_at": float(subject.loss(start.rows).detach()),
        "loss_before": float(subject.loss(beside).detach()),
        "loss_after": float(subject.loss(end).detach()),
        "distance_before": before,
        "distance_after": after,
        "rank_before": effective_rank(beside) if start.rank else math.nan,
        "rank_after": effective_rank(end) if start.rank else math.nan,
    }
    row["kind"] = kind_of(row, start.name == "plane")
    moved = float((end - beside).square().sum(dim=1).mean().sqrt()) > MOVED and start.name != "plane"
    lower = row["loss_after"] < min(row["loss_at"], row["loss_before"]) or subject.name in SURROGATES
    if after > GROWN * before:
        row["verdict"] = "leaves" if lower else "jumps"
    else:
        row["verdict"] = "moves as a whole" if moved else "stays"
    return row


def names(quick: bool) -> list[str]:
    """All registered objectives, or a few that differ in what they do at collapse."""
    few = ("koleo", "ntxent", "sigreg", "visreg")
    return [name for name in list_objectives() if not quick or name in few]
