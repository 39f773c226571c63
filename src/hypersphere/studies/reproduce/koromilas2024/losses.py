"""The losses of Koromilas et al. 2024, and their values at points whose energy is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from hypersphere.objectives import Objective, create_objective

TAU, T, GAMMA, C = 0.5, 2.0, 16.0, 2.0


@dataclass(frozen=True)
class Loss:
    """One loss: its constructor, and its value at aligned points from the energy of one of them.

    ``potential`` maps a cosine to the term that the energy averages; ``uniform`` is its mean over the uniform measure
    on S². ``value(mean, count)`` is the loss when ``count`` negatives of every anchor have the mean potential ``mean``.
    ``offset(N)`` is the part that grows with N; it is subtracted before N → ∞.
    """

    label: str
    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    potential: Callable[[float], float] = lambda cos: math.exp(cos / TAU)
    uniform: float = TAU * math.sinh(1 / TAU)
    value: Callable[[float, int], float] = lambda mean, count: mean
    offset: Callable[[int], float] = lambda N: 0.0
    logarithms: int = 0  # multiplicity of log(N-1) in the loss
    scale: float = 1.0  # of the energy in the loss

    def create(self) -> Objective:
        return create_objective(self.name, **self.settings)

    def at(self, cosines: Sequence[float]) -> float:
        """The loss of aligned points that all have these cosines to the others (sections on the optima)."""
        return self.value(fmean(map(self.potential, cosines)), len(cosines))

    def limit(self) -> float:
        """The loss of the uniform measure on S², without the part that grows with N."""
        many = 10**9
        return self.value(self.uniform, many) - self.offset(many + 1)


def _softmax(label: str, name: str, value: Callable[[float, int], float], **more: Any) -> Loss:
    settings = {"temperature": TAU, **more.pop("settings", {})}
    return Loss(label, name, settings, value=value, **{"logarithms": 1, **more})


def _kernel(kernel: str, K: Callable[[float], float], uniform: float, closest: float, s: float = 1.0) -> Loss:
    """K of the squared distance q; on S² q is uniform on [0, 4]. ``closest``: the alignment kernel at q = 0."""
    label = f"KCL {kernel.replace('_', ' ')}" + (f" s={s:g}" if "riesz" in kernel else "")
    settings = {"kernel": kernel, "t": T, "gamma": GAMMA, "c": C, "s": s}
    return Loss(
        label,
        "kcl",
        settings,
        potential=lambda cos: K(max(2 - 2 * cos, 1e-12)),
        uniform=uniform,
        value=lambda mean, count: -closest + GAMMA * mean,
        scale=GAMMA,
    )


LOSSES = (
    _softmax(
        "InfoNCE",
        "infonce",
        lambda mean, count: math.log1p(count * mean * math.exp(-1 / TAU)),
        offset=lambda N: math.log(N),
    ),
    _softmax(
        "NT-Xent",
        "ntxent",
        lambda mean, count: math.log1p(2 * count * mean * math.exp(-1 / TAU)),
        offset=lambda N: math.log(2 * N - 1),
    ),
    _softmax("DCL cross", "dcl", lambda mean, n: math.log(n * mean) - 1 / TAU, offset=lambda N: math.log(N - 1)),
    _softmax(
        "DCL both",
        "dcl",
        lambda mean, count: math.log(2 * count * mean) - 1 / TAU,
        offset=lambda N: math.log(2 * N - 2),
        settings={"negatives": "both"},
    ),
    _softmax("DHEL anchor", "dhel", lambda mean, n: math.log(n * mean) - 1 / TAU, offset=lambda N: math.log(N - 1)),
    _softmax(
        "DHEL both",
        "dhel",
        lambda mean, count: 2 * math.log(count * mean) - 1 / TAU,
        offset=lambda N: 2 * math.log(N - 1),
        settings={"energy": "both"},
        logarithms=2,
    ),
    _softmax(
        "DHEL symmetric",
        "dhel",
        lambda mean, count: math.log(count * mean) - 1 / TAU,
        offset=lambda N: math.log(N - 1),
        settings={"energy": "symmetric"},
    ),
    _kernel("gaussian", lambda q: math.exp(-T * q), -math.expm1(-4 * T) / (4 * T), 1.0),
    _kernel("log", lambda q: -math.log1p(T * q) / 2, -((1 + 4 * T) * math.log1p(4 * T) / (4 * T) - 1) / 2, 0.0),
    _kernel("imq", lambda q: C / math.sqrt(C**2 + q), C * (math.sqrt(C**2 + 4) - C) / 2, 1.0),
    _kernel("riesz", lambda q: -math.sqrt(q), -4 / 3, 0.0, s=-1.0),
    _kernel("gaussian_riesz", lambda q: 1 / math.sqrt(q), 1.0, 1.0),
)
