"""What does each objective do at a collapsed batch? Four published or common claims, measured."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.figures.collapse import Departure, draw_departures
from hypersphere.geometry import uniform_points, unit
from hypersphere.objectives import create_objective
from hypersphere.objectives.registry import is_registered
from hypersphere.report import markdown_table
from hypersphere.studies.reproduce.items import Finding
from hypersphere.studies.reproduce.own.collapsed_rows import (
    BESIDE,
    DIM,
    RATE,
    SLICES,
    ZERO,
    N,
    Subject,
    examine,
    gradient,
    names,
    starts,
    subject,
)

_log = logging.getLogger("hypersphere.reproduce")
STEPS = 200
COLUMNS = {
    "point": "point\nall rows equal",
    "line": "line\n6 rows u, 2 rows −u",
    "pair": "antipodal pair\n4 rows u, 4 rows −u",
    "plane": "plane\nrank 2 of 8",
    "origin": "origin\nall rows 0 (raw rows)",
}
RANK_ONE = ("line", "pair")
DISTANCES = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
# Regularisers alone beside the origin, and energies beside a point.
APPROACHES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "sigreg": ("origin", "sigreg", {"weight": 1.0}),
    "visreg": ("origin", "visreg", {"weight": 1.0}),
    "visreg, scale alone": ("origin", "visreg", {"weight": 1.0, "shape": 0.0, "center": 0.0}),
    "koleo": ("point", "koleo", {}),
    "mhe, s = 0 (log)": ("point", "mhe", {"s": 0.0}),
    "mhe, s = 1 (Riesz)": ("point", "mhe", {"s": 1.0}),
    "kcl, log": ("point", "kcl", {"kernel": "log"}),
    "kcl, gaussian": ("point", "kcl", {}),
}


def collapse(quick: bool = False) -> Finding:
    """Every registered objective at a point, a line, an antipodal pair, a plane and the origin, and beside them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more do not speed up batches this small
    every, steps = names(quick), 40 if quick else STEPS
    rows: list[dict[str, Any]] = []
    for place, name in enumerate(every):
        _log.info("%s", name, extra={"done": place, "total": len(every)})
        one = subject(name)
        for start in starts():
            if (start.rank or one.raw) and not (quick and start.name in ("pair", "plane")):
                rows.append(examine(one, start, steps))
    near = approaches()
    kernels = kernel_identity()
    torch.set_num_threads(threads)
    return _finding(rows, near, kernels, steps)


def approaches() -> list[dict[str, Any]]:
    """Length of the gradient at several distances from collapse, relative to that at random rows."""
    by_name, rows = {start.name: start for start in starts()}, []
    for label, (start, name, settings) in APPROACHES.items():
        one: Subject = subject(name, **settings)
        for distance in DISTANCES:
            z = by_name[start].beside(one.raw, distance) if distance else by_name[start].rows
            length = float(gradient(one.loss, z).norm())
            rows.append({"objective": label, "start": start, "distance": distance, "loss": float(one.loss(z).detach()),
                         "gradient": length, "relative": length / one.typical})  # fmt: skip
    return rows


def kernel_identity() -> list[dict[str, Any]]:
    """MMD² to the uniform law, from all N² pairs, and from KCL's energy E: (1 + (N-1)E)/N - C.

    Gaussian e^{-tq}: C in closed form for 2, 3 and 4 dimensions on one side, by quadrature on the other. sphere_jepa
    has other kernels; its bandlimited one with cutoff 1, ‖mean h‖², is affine in the cosine, as is KCL's Riesz kernel
    -q with s = -2.
    """
    t, rows = 2.0, []
    closed = {
        2: float(torch.special.i0e(torch.tensor(2 * t, dtype=torch.float64))),
        3: -math.expm1(-4 * t) / (4 * t),
        4: float(torch.special.i1e(torch.tensor(2 * t, dtype=torch.float64))) / t,
    }
    for dim, constant in closed.items():
        z = uniform_points(N, dim, 8) * 1.5
        mean = _gaussian_mean(dim, t)
        rows.append(_compare("all pairs, Gaussian", dim, z, lambda z, mean=mean: _of_all_pairs(z, t) - mean,
                             lambda z, c=constant: (1 + (N - 1) * _energy(z, t=t)) / N - c))  # fmt: skip
    if is_registered("sphere_jepa"):
        z = uniform_points(N, DIM, 8) * 1.5
        mmd = create_objective("sphere_jepa", weight=1.0, test="mmd", kernel="bandlimited", cutoff=1).eval()
        rows.append(_compare("sphere_jepa, bandlimited cutoff 1", DIM, z, lambda z: mmd(z, z),
                             lambda z: (1 + (N - 1) * (1 + _energy(z, kernel="riesz", s=-2.0) / 2)) / N))  # fmt: skip
    return rows


def _gaussian_mean(dim: int, t: float) -> float:
    """The mean of e^{-tq} over uniform unit vectors, by Gauss and Legendre's quadrature of the angle."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    angles = (nodes + 1) * math.pi / 2
    density = weights * np.sin(angles) ** (dim - 2)
    return float((density * np.exp(-2 * t * (1 - np.cos(angles)))).sum() / density.sum())


def _energy(z: Tensor, **settings: Any) -> Tensor:
    """KCL's energy alone: with equal views the alignment is -K(1), without gradient."""
    objective = create_objective("kcl", gamma=1.0, **settings)
    energy: Tensor = objective(z, z) + (0.0 if settings.get("kernel") == "riesz" else 1.0)
    return energy


def _of_all_pairs(z: Tensor, t: float) -> Tensor:
    h = unit(z)
    return torch.stack([(-t * (one - other).square().sum()).exp() for one in h for other in h]).mean()


def _compare(what: str, dim: int, z: Tensor, left: Any, right: Any) -> dict[str, Any]:
    one, other = gradient(left, z), gradient(right, z)
    return {"what": what, "dim": dim, "mmd": float(left(z)), "from_kcl": float(right(z)),
            "error": abs(float(left(z)) - float(right(z))),
            "gradient_error": float((one - other).norm() / one.norm())}  # fmt: skip


def _finding(
    rows: list[dict[str, Any]], near: list[dict[str, Any]], kernels: list[dict[str, Any]], steps: int
) -> Finding:
    at = {(row["objective"], row["start"]): row for row in rows}
    line = [row for row in rows if row["start"] in RANK_ONE]
    pushes = {
        label: {row["distance"]: row["relative"] for row in near if row["objective"] == label} for label in APPROACHES
    }
    registered = [row for row in kernels if row["what"].startswith("sphere_jepa")]
    gaussian = [row for row in kernels if row not in registered]
    sigreg, visreg = at["sigreg", "origin"], at["visreg", "origin"]
    clauses = {
        "(1) SIGReg's gradient is 0 for rows collapsed at the origin": sigreg["gradient"] == 0,
        "(1) VISReg's is not": visreg["gradient"] > 0,
        "(1) near the origin SIGReg's gradient shrinks with the distance, VISReg's does not":
            pushes["sigreg"][1e-5] < 0.02 * pushes["sigreg"][1e-3] and min(pushes["visreg, scale alone"][d] for d in
            (1e-5, 1e-3)) > 0.5 * pushes["visreg, scale alone"][1e-2],
        "(1) our conclusion from it: rows stay at the origin under SIGReg": sigreg["verdict"] == "stays",
        "(2) KCL's energy is MMD² up to a constant and (N-1)/N, in value and gradient": _holds(gaussian),
        "(2) so it is for the registered sphere_jepa": _holds(registered) if registered else None,
        "(3) NT-Xent is at a local minimum on a line (Theorem 3.1 as printed)":
            at["ntxent", "line"]["kind"] == "minimum",
        "(3) every objective is at a saddle on a line": all(row["kind"] == "saddle" for row in line),
        "(3) no objective is at a local minimum on a line": not any(map(_is_minimum, line)),
        **{f"(4) {label}: zero gradient where rows coincide, the longest just beside it": _hardest_beside(pushes[label])
           for label in ("koleo", "mhe, s = 0 (log)", "kcl, log")},
    }  # fmt: skip
    return Finding(
        claim="(1) SIGReg's gradient vanishes where all rows have collapsed at the origin, VISReg's does not (Wu, "
        "Balestriero and Levine 2026). (2) The energies of KCL and of SPHERE-JEPA's MMD are the same up to a constant "
        "and a factor (N-1)/N (by algebra, for the same kernel). (3) With all embeddings on one line the loss is at a "
        "local minimum, for most losses (Li and Pimentel-Alarcón 2024, Theorem 3.1); corrected, and as it is often "
        "said: a saddle for all. (4) KoLeo and logarithmic kernels are infinite or without gradient where rows "
        "coincide (our convention: no gradient), yet push hardest just beside it.",
        measured=_measured(rows, pushes, kernels, steps),
        clauses=clauses,
        published="collapse is where a gradient vanishes (SIGReg), a minimum or a saddle (a line), or a singularity "
        "(KoLeo)",
        here=_here(rows),
        fault=_fault(at, line, clauses),
        data={"collapse": rows, "approach": near, "kernel_identity": kernels},
        figures={"collapse": _figure(rows)},
    )


def _holds(rows: Sequence[dict[str, Any]]) -> bool:
    return all(row["error"] < 1e-9 and row["gradient_error"] < 1e-9 for row in rows)


def _is_minimum(row: dict[str, Any]) -> bool:
    """By its curvature, or at a kink from which descent finds nothing lower."""
    return bool(row["kind"] == "minimum" or (row["kind"] == "kink" and row["verdict"] != "leaves"))


def _hardest_beside(lengths: dict[float, float]) -> bool:
    """No gradient at 0, and the longest at the first distance where there is one."""
    return lengths[0.0] < ZERO and max(lengths, key=lambda each: lengths[each]) <= 1e-5


def _counted(rows: Sequence[dict[str, Any]], key: str) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in Counter(row[key] for row in rows).most_common())


def _here(rows: Sequence[dict[str, Any]]) -> str:
    count = len({row["objective"] for row in rows})
    return f"{count} objectives at collapsed batches, after small perturbations: {_counted(rows, 'verdict')}"


def _measured(
    rows: list[dict[str, Any]], pushes: dict[str, dict[float, float]], kernels: list[dict[str, Any]], steps: int
) -> str:
    at = {(row["objective"], row["start"]): row for row in rows}
    sigreg, visreg, aside = at["sigreg", "origin"], at["visreg", "origin"], at["sigreg", "point"]
    line = [row for row in rows if row["start"] in RANK_ONE]
    error = max(max(row["error"], row["gradient_error"]) for row in kernels)
    scale = pushes["visreg, scale alone"]
    paragraphs = [
        f"{len({row['objective'] for row in rows})} objectives, {N} instances in {DIM} dimensions, float64, both views "
        f"collapsed; then moved by {BESIDE:g} (views of an instance by a tenth of it apart) and followed by gradient "
        f"descent: a gradient of the typical length (median at random unit rows) moves rows by {RATE:g}, longer ones "
        "are cut to it; where curvature makes such steps unstable, the rate is the inverse of the largest curvature. A "
        f"batch leaves if after {steps} steps its distance from the collapsed set has grown tenfold and its loss is "
        "below that of the collapsed batch (it jumps if not). Lengths of gradients and "
        f"curvatures are relative to the typical gradient. sigreg and visreg have {SLICES} directions.",
        _departures(rows),
        f"(1) At the origin SIGReg's gradient is {sigreg['gradient']:g}, and beside it {sigreg['beside']:.1e}, in "
        f"proportion to the distance ({pushes['sigreg'][1e-5]:.0e} at 1e-5, {pushes['sigreg'][1e-3]:.0e} at 1e-3). But "
        f"the origin is a {sigreg['kind']}: its smallest curvature is {sigreg['smallest_curvature']:.2g}, so the "
        f"distance grows from {sigreg['distance_before']:.1e} to {sigreg['distance_after']:.1e}: the batch "
        f"{sigreg['verdict']}. VISReg's gradient at the origin is {visreg['relative']:.1e} of the typical one. All of "
        "it comes from the shape, whose quantiles take equal rows in an arbitrary order and divide by eps = 1e-6; the "
        f"scale has none exactly there (our convention), {scale[1e-5]:.2g} at a distance of 1e-5 and {scale[1e-3]:.2g} "
        f"at 1e-3. Collapsed elsewhere, at a unit vector, SIGReg has a gradient of {aside['relative']:.2g}, of which "
        f"{aside['leaving']:.0e} pulls rows apart: it carries the batch to the origin as a whole.",
        f"(2) Largest error of value and gradient: {error:.0e} ("
        + ", ".join(f"{row['what']}, D = {row['dim']}" for row in kernels)
        + ").",
        f"(3) On a line or an antipodal pair: {_counted(line, 'kind')}. Not stationary: "
        f"{_named(line, 'not stationary')}. Minimum: {_named(line, 'minimum')}. Maximum, no direction rises: "
        f"{_named(line, 'maximum')}. Kink, where distances, angles, ties or singular values have no derivative: "
        f"{_named(line, 'kink')}; curvature does not judge these, descent does. Of all {len(line)} cases "
        f"{sum(row['verdict'] == 'leaves' for row in line)} leave, to a loss below that on the line. Kinks from which "
        f"descent finds nothing lower: {_named([row for row in line if _is_minimum(row)], 'kink')}; artanh_infonce is "
        "0, its infimum, wherever both views of every instance are equal, since its positive logit is infinite there. "
        "Saddles that are left too slowly for these steps: "
        f"{_named([row for row in line if row['verdict'] == 'stays'], 'saddle')}.",
        "(4) Relative gradient at distances 0, 1e-5, 1e-3, 1e-1 from a point: "
        + "; ".join(
            f"{label} {', '.join(_number(pushes[label][distance]) for distance in (0.0, 1e-5, 1e-3, 1e-1))}"
            for label, (start, *_) in APPROACHES.items()
            if start == "point"
        )
        + ". KCL's logarithmic kernel is log(1 + tq), finite and smooth at q = 0.",
    ]
    return "\n\n".join(paragraphs) + "\n\n" + _table(rows)


def _departures(rows: Sequence[dict[str, Any]]) -> str:
    """How many leave, and who does not."""
    staying = [f"{row['objective']} ({row['start']}: {row['verdict']})" for row in rows if row["verdict"] != "leaves"]
    return f"All starts: {_counted(rows, 'verdict')}" + (f". Not leaving: {', '.join(staying)}." if staying else ".")


def _named(rows: Sequence[dict[str, Any]], kind: str) -> str:
    return ", ".join(dict.fromkeys(row["objective"] for row in rows if row["kind"] == kind)) or "none"


def _table(rows: Sequence[dict[str, Any]]) -> str:
    """For each objective and start: kind, gradient at and beside it, smallest curvature, rank after, verdict."""
    header = ["objective, start", "kind", "gradient at", "leaving", "beside", "leaving share", "curvature", "rank",
              "after", "verdict"]  # fmt: skip
    lines = []
    for row in rows:
        ranks = [_number(row["rank_before"]), _number(row["rank_after"])]
        curvature = _number(row["smallest_curvature"]) if row["differentiable"] else "kink"
        lines.append(
            [
                f"{row['objective']}, {row['start']}",
                row["kind"],
                *(_number(row[each]) for each in ("relative", "leaving", "beside")),
                f"{row['beside_share_leaving']:.2f}",
                curvature,
                *ranks,
                row["verdict"],
            ]
        )
    return markdown_table(header, lines)


def _number(value: float) -> str:
    return "" if math.isnan(value) else "0" if abs(value) < 1e-12 else f"{value:.2g}"


def _fault(at: dict[tuple[str, str], dict[str, Any]], line: list[dict[str, Any]], clauses: dict[str, Any]) -> str:
    if all(clauses.values()):
        return ""
    return (
        "The claims. (1) A zero gradient is no trap where the curvature is negative: moved by "
        f"{BESIDE:g}, rows leave the origin under SIGReg; only the speed differs, since the push is proportional to "
        "the distance. (3) A zero gradient was taken for a minimum: NT-Xent has a curvature of "
        f"{at['ntxent', 'line']['smallest_curvature']:.2g} on a line (closed form: cloa2024/theorem31). Nor is it a "
        f"saddle for all: {_counted(line, 'kind')}. (4) A logarithm of 1 + tq has no singularity. The implementation "
        "is not at fault: curvatures agree with closed forms in the tests."
    )


def _figure(rows: Sequence[dict[str, Any]]) -> Any:
    cells = {
        (row["objective"], row["start"]): Departure(
            row["beside"], f"{row['kind']}, {row['verdict'].replace('moves as a whole', 'whole')}",
            row["verdict"] != "leaves",
        )
        for row in rows
    }  # fmt: skip
    shown = {start: title for start, title in COLUMNS.items() if any(column == start for _, column in cells)}
    everyone = list(dict.fromkeys(row["objective"] for row in rows))
    return draw_departures("Collapsed batches: what the loss is there, and whether rows leave", everyone, shown, cells)
