"""Koromilas et al. 2024: which configurations minimise the losses, in a batch and in the limit."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hypersphere.figures.configurations import (
    Reach,
    draw_reach,
)
from hypersphere.geometry import angle, uniform_points, unit
from hypersphere.objectives import Objective
from hypersphere.studies.free_points import gaussian_energy, largest_smallest_angle, nearest_angles, uniform_energy
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.koromilas2024.losses import LOSSES, Loss, T

STEPS = 80  # for many points
CLOSE = 1e-6  # relative to the size of the loss: this close to the known optimum counts as reached
NEAR = 0.8  # of Fejes Tóth's bound
FALLING = -0.25  # the gap to the limit shrinks with N, slowest for the Riesz energy with s = 1: as N^-1/2
MET = 1e-4  # radians: views closer than this have met
_log = logging.getLogger("hypersphere.reproduce")


@dataclass(frozen=True)
class Case:
    """N points in D dimensions, and the cosines of a point of the best configuration to the others."""

    shape: str
    N: int
    D: int

    @property
    def cosines(self) -> list[float]:
        if self.shape == "simplex":
            return [-1 / (self.N - 1)] * (self.N - 1)
        return [-1.0] + [0.0] * (self.N - 2)


FEW = (
    Case("simplex", 4, 3),
    Case("simplex", 5, 8),
    Case("simplex", 9, 8),
    Case("cross-polytope", 6, 3),
    Case("cross-polytope", 10, 5),
)


def minimise(objective: Objective, start: Sequence[Tensor], iterations: int = 150) -> tuple[Tensor, ...]:
    """Unit rows after L-BFGS, for one set of points that is both views, or for two sets, one per view."""
    rows = [each.clone().requires_grad_() for each in start]
    optimiser = torch.optim.LBFGS(
        rows, max_iter=iterations, tolerance_grad=1e-9, tolerance_change=1e-13, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss: Tensor = objective(rows[0], rows[-1])
        loss.backward()
        return loss

    optimiser.step(closure)
    return tuple(unit(each).detach() for each in rows)


def best(loss: Loss, N: int, D: int, views: int, starts: int, iterations: int = 150) -> dict[str, Any]:
    """The lowest loss from several random starts, and the properties of its points."""
    objective, minima = loss.create(), []
    for seed in range(starts):
        start = [uniform_points(N, D, seed=100 * view + seed) for view in range(views)]
        ended, joined = _joined(objective, minimise(objective, start, iterations), iterations)
        minima.append((_value(objective, ended), seed, ended, joined))
    value, _, points, joined = min(minima, key=lambda each: each[:2])
    return {
        "loss": value,
        "smallest": math.degrees(float(nearest_angles(points[0]).min())),
        "apart": math.degrees(_apart(points)),
        "joined": joined,
        "energy": gaussian_energy(points[0]),
    }


def _joined(objective: Objective, points: tuple[Tensor, ...], iterations: int) -> tuple[tuple[Tensor, ...], bool]:
    """The same, continued as one set of points if the two views have met and one set gets lower.

    An alignment by the distance ‖h-h'‖ itself has a kink where the views meet, at which L-BFGS stalls.
    """
    if len(points) > 1 and _apart(points) < MET:
        together = minimise(objective, [unit(points[0] + points[1])], iterations)
        if _value(objective, together) < _value(objective, points) - CLOSE:
            return together, True
    return points, False


def _value(objective: Objective, points: tuple[Tensor, ...]) -> float:
    with torch.no_grad():
        return float(objective(points[0], points[-1]))


def _apart(points: tuple[Tensor, ...]) -> float:
    """Largest angle between the two views of an instance."""
    return float(angle((points[0] * points[-1]).sum(dim=1)).max()) if len(points) > 1 else 0.0


def minimisers(quick: bool = False) -> Finding:
    """Every loss minimised from random starts, against its value at the configuration claimed to be the best."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more threads do not speed up sets this small
    few: list[dict[str, Any]] = []
    for case in FEW[::3] if quick else FEW:
        for views in (1, 2):
            _log.info("%s, %d points in %d dimensions, %d free view(s)", case.shape, case.N, case.D, views)
            losses = LOSSES[::4] if quick and views == 2 else LOSSES
            few += [_few(loss, case, views, starts=1 if quick else 4) for loss in losses]
    many: list[dict[str, Any]] = []
    steps = 20 if quick else STEPS
    for N in (16,) if quick else (8, 16, 32, 64, 128, 256):
        _log.info("%d points in 3 dimensions, aligned", N)
        many += [_many(loss, N, steps) for loss in LOSSES]
    torch.set_num_threads(threads)
    return _minimisers(few, many, steps)


def _few(loss: Loss, case: Case, views: int, starts: int) -> dict[str, Any]:
    minimum, known = (
        best(loss, case.N, case.D, views, starts, iterations=400 if views > 1 else 150),
        loss.at(case.cosines),
    )
    regular = math.degrees(math.acos(max(case.cosines)))
    gap = minimum["loss"] - known
    return {
        "shape": case.shape,
        "N": case.N,
        "D": case.D,
        "views": "aligned" if views == 1 else "two free",
        "objective": loss.label,
        "loss": minimum["loss"],
        "known": known,
        "gap": gap,
        "reached": abs(gap) < CLOSE * max(1, abs(known)),
        "smallest_angle": minimum["smallest"],
        "regular_angle": regular,
        "largest_angle_between_views": minimum["apart"],
        "views_joined": minimum["joined"],
    }


def _many(loss: Loss, N: int, iterations: int) -> dict[str, Any]:
    minimum = best(loss, N, 3, views=1, starts=1, iterations=iterations)
    return {
        "N": N,
        "D": 3,
        "objective": loss.label,
        "loss": minimum["loss"],
        "loss_without_growth": minimum["loss"] - loss.offset(N),
        "uniform_measure": loss.limit(),
        "gap": (minimum["loss"] - loss.offset(N) - loss.limit()) / loss.scale,
        "gaussian_energy": minimum["energy"],
        "gaussian_energy_uniform": uniform_energy(T),
        "smallest_angle": minimum["smallest"],
        "fejes_toth_bound": math.degrees(largest_smallest_angle(N)),
    }


def _minimisers(few: list[dict[str, Any]], many: list[dict[str, Any]], steps: int) -> Finding:
    aligned, free = ([row for row in few if row["views"] == views] for views in ("aligned", "two free"))
    below = [row for row in few if not row["reached"] and row["gap"] < 0]
    missed = [row for row in few if not row["reached"] and row["gap"] > 0]
    joined = [row for row in free if row["views_joined"]]
    last = [row for row in many if row["N"] == many[-1]["N"]]
    shares = {row["objective"]: row["smallest_angle"] / row["fejes_toth_bound"] for row in last}
    wide = [name for name, share in shares.items() if share > NEAR]
    rates = _rates(many)
    excess = max(row["gaussian_energy"] - row["gaussian_energy_uniform"] for row in last)
    stall = (
        f" ({', '.join(dict.fromkeys(row['objective'] for row in joined))} in {len(joined)} cases only after views "
        "that had met were moved on together: its alignment ‖h-h'‖ has a kink there, at which L-BFGS stalls)"
    )
    measured = (
        f"With aligned points {sum(row['reached'] for row in aligned)} of {len(aligned)} minimisations, each the best "
        "of a few random starts, end on the value of the simplex (N ≤ D+1) or the cross-polytope (N = 2D), to "
        f"{CLOSE:g} of the loss. With two free views {sum(row['reached'] for row in free)} of {len(free)} do"
        + (stall if joined else "")
        + (f"; short of it: {_names(missed)}" if missed else "")
        + (f"; below it: {_names(below)}" if below else "; none ends below it")
        + f". On S² with {last[0]['N']} points the losses without their log N (KCL: divided by γ) are within "
        f"{max(abs(row['gap']) for row in last):.2g} of those of the uniform measure{_said(rates)}; the Gaussian "
        f"energy (t = {T:g}) is at most {excess:.2g} above its own. The smallest angle is {min(shares.values()):.0%} "
        f"to {max(shares.values()):.0%} of Fejes Tóth's bound, above {NEAR:.0%} for {', '.join(wide) or 'none'}, after "
        f"one start and {steps} steps: soft potentials may care little for a few close pairs, or need longer."
    )
    return Finding(
        claim="InfoNCE's variants, DHEL and KCL have the same minimisers, in a batch and in the limit of many "
        "points: aligned pairs, spread as a regular simplex if N ≤ D+1, as a cross-polytope if N = 2D (Cohn and Kumar "
        "2007), and as the uniform measure in the limit.",
        measured=measured,
        clauses={
            "in a batch: the simplex or the cross-polytope, and nothing lower": not below and not missed,
            "in the limit: the uniform measure": all(rate < FALLING for rate in rates.values()) if rates else None,
        },
        errata="DHEL exists in two forms: the authors' figure has the anchor's energy, their code adds that of the "
        "other view (here 'both'). The code's logarithmic kernel has ½ in the energy only; here it has ½ in both "
        "places, which changes no minimiser.",
        data={"batch": few, "asymptotic": many},
        figures={
            "minimisers": draw_reach(
                [
                    Reach(
                        row["objective"],
                        f"{row['shape']}\nN={row['N']}, D={row['D']}",
                        row["views"],
                        row["gap"] / max(1, abs(row["known"])),
                    )
                    for row in few
                ],
                [(row["objective"], row["N"], row["gap"]) for row in many],
            )
        },
    )


def _rates(many: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Exponents of the gap to the uniform measure in N, between the two largest N; none for a single N."""
    before, last = (
        {row["objective"]: row for row in many if row["N"] == N} for N in (many[-1]["N"] // 2, many[-1]["N"])
    )
    return {name: math.log2(abs(row["gap"] / before[name]["gap"])) for name, row in last.items() if name in before}


def _said(rates: dict[str, float]) -> str:
    """The exponents in words, those near -1 together."""
    if not rates:
        return " (one number of points: whether that falls was not measured)"
    odd = [f"{name} N^{rate:.1f}" for name, rate in rates.items() if abs(rate + 1) > 0.1]
    others = f" ({', '.join(odd)})" if odd else ""
    return f", a gap that falls as 1/N for {len(rates) - len(odd)} of {len(rates)}{others}"


def _names(rows: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{row['objective']} (N={row['N']}, D={row['D']}, by {abs(row['gap']):.2g})" for row in rows)
