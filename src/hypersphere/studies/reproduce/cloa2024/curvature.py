"""An objective where all embeddings lie on one line: gradient, curvature, and whether a lower value is near."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hypersphere.geometry import unit
from hypersphere.objectives import Objective, create_objective

DIM = 3
FLAT = 1e-6  # relative to the largest curvature; smaller values count as zero
# Weights or vectors without gradient: autograd returns a field that is not the gradient of the value.
SURROGATES = ("dclw", "mbarlow", "mixup", "mmhe", "mmhs", "mvicreg", "paradigm", "visreg")

# Signs of the first view, then of the second: every vector is its sign times one common direction.
PATTERNS = {
    "all equal": ("++++", "++++"),
    "one opposed": ("+++-", "+++-"),
    "half opposed": ("++--", "++--"),
    "views opposed": ("++++", "----"),
    "pairs mixed": ("+++-", "++-+"),
    "two instances,\nopposed": ("+-", "+-"),
}
# The possible outcomes and their colours, darkest first so that the order survives grey printing.
KINDS = {
    "local minimum": "#1f3a5f",
    "saddle": "#c8501e",
    "maximum along some, flat along others": "#e59b6d",
    "gradient field unstable": "#d9b44a",
    "gradient field stable": "#4b86b4",
    "kink, descends": "#b9c7a0",
    "kink, a minimum": "#6f9a8d",
    "gradient field jumps": "#f3e6b3",
    "flat: no gradient left": "#e8ecef",
    "not stationary": "#d8c7dd",
}
# Beyond the registry's defaults: the forms on unit vectors, the other negatives, and labels.
VARIANTS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "barlow (unit, ν=30)": ("barlow", {"normalization": "unit", "weight": 30.0}, False),
    "vicreg (unit)": ("vicreg", {"normalization": "unit", "gamma": DIM**-0.5}, False),
    "dcl (both)": ("dcl", {"negatives": "both"}, False),
    "supcon (labels)": ("supcon", {}, True),
}
REASONS = {
    "barlow": "standardises each feature over the batch: not a function of cosines; at a constant feature it "
    "divides by "
    "sqrt(1e-5), so that curvatures are huge there and slopes of 1e-6 remain elsewhere",
    "sigreg": "a law of raw rows on fixed directions: not a function of cosines",
    "frossl": "scales each feature to length 1 over the batch: not a function of cosines",
    "visreg": "means, deviations and quantiles of single features: not a function of cosines",
    "vicreg": "variances and covariances of single features: not a function of cosines",
    "vicreg (unit)": "variances and covariances of single features: not a function of cosines",
    "barlow (unit, ν=30)": "correlations of single features: not a function of cosines",
    "cloa": "the pull of the anchors is on single vectors: not a function of the cosines between embeddings",
    "hyperbolic": "distances in the ball have a kink at coincident points; the gradient there is set to 0",
    "geodesic": "the angle has a kink at 0 and at π; the gradient there is set to 0",
    "mat": "the angle has a kink at 0 and at π; the gradient there is set to 0",
    "met": "the distance has a kink at coincident points; the gradient there is set to 0",
    "triplet": "the distance has a kink at coincident points; the gradient there is set to 0",
    "mmcr": "the nuclear norm has a kink where singular values are 0; they receive no gradient there",
    "wasserstein": "the nuclear norm has a kink where singular values are 0; they receive no gradient there",
    "mhs": "the distance has a kink at coincident points; the gradient there is set to 0",
    "mpt": "several negatives are equally hard, so the maximum has a kink",
    "arccon": "cos(θ+u) has a kink where the positive angle is 0 or π; opposed positives are a minimum of their "
    "own, since "
    "there cos(θ+u) falls as the angle shrinks",
    "mmhs": "weights of one over the distance: at coincident points only a clamp (1e-6) keeps them finite",
}


@dataclass(frozen=True)
class Subject:
    """An objective as a function of both views stacked, (2N, D)."""

    label: str
    loss: Callable[[Tensor], Tensor]


def subjects(names: Sequence[str]) -> list[Subject]:
    """The registered objectives with their defaults (CLOA on NT-Xent, with labels), then the variants."""
    subjects = []
    for name in names:
        settings: dict[str, Any] = {"base": "ntxent", "num_classes": 2, "dim": DIM} if name == "cloa" else {}
        subjects.append(Subject(name, _stacked(create_objective(name, **settings), labelled=name == "cloa")))
    for label, (name, more, labelled) in VARIANTS.items():
        if name in names:
            subjects.append(Subject(label, _stacked(create_objective(name, **more), labelled)))
    return subjects


def _stacked(objective: Objective, labelled: bool) -> Callable[[Tensor], Tensor]:
    objective.eval()  # random directions are the same in every call

    def loss(z: Tensor) -> Tensor:
        N = len(z) // 2
        labels = torch.arange(N) * 2 // N if labelled else None
        value: Tensor = objective(z[:N], z[N:], labels)
        return value

    return loss


def line(first: str, second: str) -> Tensor:
    """Both views stacked, every row ± one unit vector: (2N, D)."""
    signs = torch.tensor([1.0 if sign == "+" else -1.0 for sign in first + second], dtype=torch.float64)
    return signs[:, None] * unit(torch.tensor([[2.0, -1.0, 1.5]], dtype=torch.float64))


class Chart:
    """Tangent coordinates u of all rows around ``z``: row i is unit(z_i + B_i u_i), B_i an orthonormal basis."""

    def __init__(self, z: Tensor) -> None:
        self.z = z
        self.basis = torch.stack([torch.linalg.svd(row[None]).Vh[1:].T for row in z])  # (2N, D, D-1)
        self.size = len(z) * (z.shape[1] - 1)

    def rows(self, u: Tensor) -> Tensor:
        steps = u.reshape(len(self.z), -1, 1)
        return unit(self.z + (self.basis @ steps).squeeze(-1))

    def gradient(self, loss: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
        u = u.clone().requires_grad_()
        (grad,) = torch.autograd.grad(loss(self.rows(u)), u)
        return grad

    def hessian(self, loss: Callable[[Tensor], Tensor]) -> Tensor:
        origin = torch.zeros(self.size, dtype=self.z.dtype)
        hessian: Tensor = torch.autograd.functional.hessian(lambda u: loss(self.rows(u)), origin)
        return (hessian + hessian.T) / 2

    def field_jacobian(self, loss: Callable[[Tensor], Tensor], step: float) -> Tensor:
        """Derivative of autograd's gradient, by differences: it includes kinks and stopped gradients."""
        shifts = step * torch.eye(self.size, dtype=self.z.dtype)
        ends = [(self.gradient(loss, shift), self.gradient(loss, -shift)) for shift in shifts]
        return torch.stack([(ahead - behind) / (2 * step) for ahead, behind in ends], dim=1)

    def paired(self, draws: int, generator: torch.Generator) -> Tensor:
        """Directions that keep the two views of every instance equal, or opposed: (draws + N, size)."""
        N, D = len(self.z) // 2, self.z.shape[1]
        moves = torch.randn(draws + N, N, D, generator=generator, dtype=self.z.dtype)
        moves[draws:] *= torch.eye(N, dtype=self.z.dtype)[:, :, None]  # the last ones move a single instance
        signs = (self.z[:N] * self.z[N:]).sum(dim=1)[:, None]  # ±1
        both = torch.cat([moves, signs * moves], dim=1)  # (draws + N, 2N, D)
        return torch.einsum("knd,nde->kne", both, self.basis).flatten(1)

    def lowest_nearby(self, loss: Callable[[Tensor], Tensor], directions: Tensor, step: float) -> float:
        """Smallest change of the loss after ``step`` along any of the unit directions, either way."""
        with torch.no_grad():
            here = loss(self.rows(torch.zeros(self.size, dtype=self.z.dtype)))
            moved = [loss(self.rows(sign * step * each)) - here for each in directions for sign in (1, -1)]
        return float(torch.stack(moved).min())


def examine(subject: Subject, pattern: str, draws: int) -> dict[str, Any]:
    """Stationary? Which curvature? Is there a lower value nearby?"""
    chart = Chart(line(*PATTERNS[pattern]))
    origin = torch.zeros(chart.size, dtype=torch.float64)
    with torch.no_grad():
        value = float(subject.loss(chart.z))
    grad = float(chart.gradient(subject.loss, origin).norm())
    hessian = chart.hessian(subject.loss)
    curvatures, vectors = torch.linalg.eigh(hessian)
    coarse, fine = (chart.field_jacobian(subject.loss, step) for step in (1e-4, 1e-5))
    size = float(fine.abs().max())
    smooth = float((coarse - fine).abs().max()) <= 1e-3 * max(size, 1e-6)
    is_gradient = float((fine - hessian).abs().max()) <= 1e-3 * max(size, 1e-6)
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(draws, chart.size, generator=generator, dtype=torch.float64)
    directions = unit(torch.cat([vectors.T, random, chart.paired(draws, generator)]))
    drop = chart.lowest_nearby(subject.loss, directions, 1e-3)
    flow = torch.linalg.eigvals(fine).real
    row: dict[str, Any] = {
        "objective": subject.label,
        "configuration": pattern.replace("\n", " "),
        "signs": " / ".join(PATTERNS[pattern]),
        "loss": value,
        "projected_gradient": grad,
        "smallest_curvature": float(curvatures[0]),
        "largest_curvature": float(curvatures[-1]),
        "smallest_of_field": float(flow.min()),
        "largest_of_field": float(flow.max()),
        "lowest_change_nearby": drop,
        "twice_differentiable": smooth,
        "hessian_is_derivative_of_gradient": is_gradient,
    }
    row["found"] = _kind(row)
    row["note"] = REASONS.get(subject.label, "")
    return row


def _kind(row: dict[str, Any]) -> str:
    low, high = row["smallest_curvature"], row["largest_curvature"]
    size = max(abs(low), abs(high))
    if row["projected_gradient"] > 1e-7 * max(1.0, abs(row["loss"]), size):
        return "not stationary"
    if size < FLAT and max(abs(row["smallest_of_field"]), abs(row["largest_of_field"])) < FLAT:
        return "flat: no gradient left"
    if row["objective"] in SURROGATES:
        if not row["twice_differentiable"]:
            return "gradient field jumps"
        unstable = row["smallest_of_field"] < -1e-4 * max(1e-6, abs(row["largest_of_field"]))
        return "gradient field unstable" if unstable else "gradient field stable"
    if not (row["twice_differentiable"] and row["hessian_is_derivative_of_gradient"]):
        return "kink, descends" if row["lowest_change_nearby"] < -1e-8 else "kink, a minimum"
    if low < -FLAT * size or row["lowest_change_nearby"] < -1e-9:
        return "saddle" if high > FLAT * size else "maximum along some, flat along others"
    return "local minimum"


def ntxent_curvatures(N: int, temperature: float) -> tuple[dict[str, float], dict[str, float]]:
    """Largest errors of the closed forms for the summed NT-Xent with all vectors equal, and the closed forms.

    Both views of an instance together, zero mean: -4N/((2N-1)τ), (N-1)(D-1) times; one view against the other:
    (2/τ)(2 - 2N/(2N-1)), N(D-1) times; all together: 0, D-1 times.
    """
    chart = Chart(line("+" * N, "+" * N))
    objective = create_objective("ntxent", temperature=temperature, reduction="sum")
    eigenvalues = torch.linalg.eigvalsh(chart.hessian(_stacked(objective, labelled=False)))
    together, apart = -4 * N / ((2 * N - 1) * temperature), (2 / temperature) * (2 - 2 * N / (2 * N - 1))
    k, m = (N - 1) * (DIM - 1), (N - 1) * (DIM - 1) + DIM - 1
    errors = {
        "together": float((eigenvalues[:k] - together).abs().max()),
        "rotation": float(eigenvalues[k:m].abs().max()),
        "apart": float((eigenvalues[m:] - apart).abs().max()),
    }
    return errors, {"together": together, "apart": apart}


def numbers(row: dict[str, Any]) -> str:
    """The row in a few characters."""
    if row["found"] == "not stationary":
        return f"slope {row['projected_gradient']:.2g}"
    if row["found"].startswith("kink"):
        return "descends" if "descends" in row["found"] else "rises"
    if row["found"] == "gradient field jumps":
        return "jumps"
    if row["found"].startswith("flat"):
        return "flat"
    low, high = (
        (row["smallest_of_field"], row["largest_of_field"])
        if row["found"].startswith("gradient field")
        else (row["smallest_curvature"], row["largest_curvature"])
    )
    return f"{_short(low)} … {_short(high)}"


def _short(value: float) -> str:
    return "0" if abs(value) < 1e-6 else (f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}").replace("-", "−", 1)
