"""Free points on a sphere: where does each objective send them, and is that where they should be?

    python -m hypersphere.studies.free_points --out demo --seed 0

Both views are the same free points, so alignment is perfect from the start and only the spread of the negatives
remains of an objective. For a few points the best spread is known: the regular simplex and the cross-polytope
minimise every completely monotone energy (Cohn and Kumar 2007). For many points on S² no set has a smaller Gaussian
energy than the uniform measure, nor a larger smallest angle than Fejes Tóth's bound.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hypersphere.figures import draw_spheres
from hypersphere.geometry import angle, cross_polytope, simplex, tangent, uniform_points, unit
from hypersphere.objectives import Objective, create_objective
from hypersphere.report import atomic_write
from hypersphere.studies.arguments import Arguments, run_command, whole_number

T = 2.0  # of the Gaussian potential e^{-t‖x-y‖²} that measures the spread
ANGLE_REACHED, ENERGY_REACHED = math.radians(0.5), 1e-4  # this close to the optimum counts as reached
SAME_PLACE = math.radians(0.5)


@dataclass(frozen=True)
class Contestant:
    """An objective in the study: its name on the picture and its settings."""

    label: str
    name: str
    settings: dict[str, Any] = field(default_factory=dict)

    def create(self) -> Objective:
        return create_objective(self.name, **self.settings)


CONTESTANTS = (
    Contestant("InfoNCE τ=0.5", "infonce", {"temperature": 0.5}),
    Contestant("NT-Xent τ=0.5", "ntxent"),
    Contestant("align+uniform", "align_uniform"),
    Contestant("KCL gaussian", "kcl"),
    Contestant("KCL log", "kcl", {"kernel": "log"}),
    Contestant("SigLIP", "siglip", {"learnable": False}),
    Contestant("InfoNCE τ=0.05", "infonce", {"temperature": 0.05}),
    Contestant("MET m=0.45", "met", {"margin": 0.45}),
)


@dataclass(frozen=True)
class PointSet:
    """The number of points, the dimension, and the optimal placement if it is known."""

    name: str
    count: int
    dim: int
    optimum: Tensor | None = None


def upright(points: Tensor) -> Tensor:
    """The same set rotated so that its first point is at the top and its second in the half-plane x > 0."""
    frame = torch.linalg.qr(points[:2].T).Q  # (3, 2): along the first point, then towards the second
    frame = frame * (points[:2] @ frame).diagonal().sign()
    return points @ torch.stack([frame[:, 1], torch.linalg.cross(frame[:, 0], frame[:, 1]), frame[:, 0]], dim=1)


def clustered_points(count: int, dim: int, seed: int) -> Tensor:
    """Nearly collapsed: ``count`` random points within 15° of one direction."""
    pole = torch.eye(dim, dtype=torch.float64)[0]
    return unit(pole + 0.25 * uniform_points(count, dim, seed))


FEW = (
    PointSet("tetrahedron: 4 points in 3 dimensions", 4, 3, upright(simplex(4, 3))),
    PointSet("simplex: 5 points in 4 dimensions", 5, 4, simplex(5, 4)),
    PointSet("octahedron: 6 points in 3 dimensions", 6, 3, cross_polytope(3)),
)
MANY = PointSet("200 points in 3 dimensions", 200, 3)


def spread(objective: Objective, start: Tensor, steps: int, learning_rate: float = 0.05) -> Tensor:
    """The points (N, D) on the sphere after ``steps`` steps of Adam, with the rate falling to 0 along a cosine.

    Adam has no momentum (β₁ = 0), so that a point stops where its gradient vanishes, and a short memory (β₂ = 0.99).
    """
    points = unit(start).detach().clone().requires_grad_()
    optimiser = torch.optim.Adam([points], lr=learning_rate, betas=(0.0, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        optimiser.zero_grad()
        objective(points, points).backward()
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            points.copy_(unit(points))
    return points.detach()


def nearest_angles(points: Tensor) -> Tensor:
    """Angle of each unit row to its nearest neighbour: (N, D) -> (N,)."""
    return angle((points @ points.T).fill_diagonal_(-1).amax(dim=1))


def gaussian_energy(points: Tensor, t: float = T) -> float:
    """Mean of e^{-t‖x-y‖²} over all N² pairs, including each point with itself: at least the uniform measure's."""
    return float(torch.exp(-t * (2 - 2 * points @ points.T)).mean())


def uniform_energy(t: float = T) -> float:
    """Gaussian energy of the uniform measure on S²: (1-e^{-4t})/(4t).

    >>> round(uniform_energy(2.0), 6)
    0.124958
    """
    return -math.expm1(-4 * t) / (4 * t)


def largest_smallest_angle(count: int) -> float:
    """No ``count`` points on S² have a larger smallest angle (Fejes Tóth 1943); exact for 3, 4, 6 and 12.

    >>> round(math.degrees(largest_smallest_angle(6)), 6)
    90.0
    """
    cot = 1 / math.tan(count / (count - 2) * math.pi / 6)
    return math.acos((cot**2 - 1) / 2)


def places(points: Tensor) -> int:
    """Number of groups of points closer than half a degree."""
    left, count = torch.ones(len(points), dtype=torch.bool), 0
    near = points @ points.T > math.cos(SAME_PLACE)
    while left.any():
        group, size = near[left.nonzero()[0, 0]], 0
        while int(group.sum()) != size:
            size = int(group.sum())
            group = near[group].any(dim=0)
        left, count = left & ~group, count + 1
    return count


def gradient_left(objective: Objective, points: Tensor) -> float:
    """Largest tangential gradient of any point."""
    points = points.clone().requires_grad_()
    (grad,) = torch.autograd.grad(objective(points, points), points)
    return float(tangent(grad, points.detach()).norm(dim=1).max())


@dataclass(frozen=True)
class Outcome:
    """The result of one objective on one point set."""

    contestant: Contestant
    of: PointSet
    start: Tensor
    points: Tensor

    @property
    def smallest(self) -> float:
        return float(nearest_angles(self.points).min())

    @property
    def energy(self) -> float:
        return gaussian_energy(self.points)

    @property
    def excess(self) -> float:
        """Gaussian energy above that of the known optimum, or of the uniform measure."""
        best = self.of.optimum
        return self.energy - (uniform_energy() if best is None else gaussian_energy(best))

    @property
    def reached(self) -> bool:
        """Whether the points have reached the known optimum."""
        best = self.of.optimum
        assert best is not None
        off = abs(self.smallest - float(nearest_angles(best).min()))
        return off < ANGLE_REACHED and abs(self.excess) < ENERGY_REACHED

    @property
    def verdict(self) -> str:
        """The reason for the final positions: "optimum", "margin holds", "gradient fades" or "still moving"."""
        if self.reached:
            return "optimum"
        objective = self.contestant.create()
        left = gradient_left(objective, self.points)
        if left == 0:
            return "margin holds"
        return "gradient fades" if left < 1e-2 * gradient_left(objective, self.start) else "still moving"


def run(of: PointSet, seed: int, steps: int) -> list[Outcome]:
    """All contestants from the same start: nearly collapsed if the points are few, uniformly random if many."""
    outcomes = []
    start = (uniform_points if of.optimum is None else clustered_points)(of.count, of.dim, seed)
    for contestant in CONTESTANTS:
        began = time.perf_counter()
        outcome = Outcome(contestant, of, start, spread(contestant.create(), start, steps))
        outcomes.append(outcome)
        print(
            f"  {contestant.label:16s} smallest angle {math.degrees(outcome.smallest):6.2f}°"
            f"  energy {outcome.energy:.5f}  {time.perf_counter() - began:.1f} s",
            flush=True,
        )
    return outcomes


def aligned(points: Tensor, onto: Tensor) -> Tensor:
    """The points rotated, reflected and renumbered to lie as near to ``onto`` as possible; for the picture only."""
    orders = torch.tensor(list(permutations(range(len(points)))))
    shuffled = points[orders]  # (orders, N, D)
    U, _, V = torch.linalg.svd(shuffled.transpose(1, 2) @ onto)
    turned: Tensor = shuffled @ (U @ V)
    return turned[int((turned - onto).square().sum(dim=(1, 2)).argmin())]


def main(arguments: Sequence[str] | None = None) -> int:
    from hypersphere.studies.free_points_report import picture, text, title

    parser = Arguments(prog="python -m hypersphere.studies.free_points", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the report and its picture")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="of the random start")
    parser.add_argument("--steps", type=whole_number(1), default=500, help="of the optimiser")
    options = parser.parse_args(arguments)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        import matplotlib  # noqa: F401
    except OSError as error:
        parser.error(f"argument --out: {options.out} cannot be a folder ({error.strerror}).")
    except ImportError:
        parser.error("the picture needs matplotlib: pip install 'hypersphere-lab[figures]'.")
    outcomes: dict[str, list[Outcome]] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more threads do not speed up sets this small, and slow them on a busy machine
    for number, of in enumerate((*FEW, MANY), start=1):
        print(f"{number}/{len(FEW) + 1} {of.name}", flush=True)
        outcomes[of.name] = run(of, options.seed, options.steps)
    torch.set_num_threads(threads)
    print("drawing", flush=True)
    few, many = [outcomes[of.name] for of in FEW], outcomes[MANY.name]
    image = draw_spheres(title(few, many), picture(few, many))
    atomic_write(options.out / "free_points.png", image)
    report = atomic_write(options.out / "report.md", text(few, many, "free_points.png", options.seed, options.steps))
    print(f"report: {report}")
    return 0


if __name__ == "__main__":
    run_command(main)
