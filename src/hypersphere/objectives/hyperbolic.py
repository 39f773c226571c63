"""Contrast in hyperbolic space beside the contrast on the sphere."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hypersphere.engine import Inputs, Statistics, masked_logsumexp
from hypersphere.objectives.base import Objective, PairwiseObjective
from hypersphere.objectives.infonce import InfoNCE
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import TEMPERATURES, number

LONGEST = 2.3  # raw rows are clipped to this length before they are mapped into the ball


def lorentz_rows(z: Tensor, curvature: float) -> Tensor:
    """Raw rows (N, D) as points of the hyperboloid (N, D+1), by way of the Poincaré ball.

    x = tanh(√c ‖z‖) z / (√c ‖z‖) with ‖z‖ clipped; the point is (1+c‖x‖², 2√c x) / (1-c‖x‖²). For two of them
    p, q the distance in the ball is arccosh(p_0 q_0 - p_1 q_1 - …)/√c.

    Near the rim the two halves of that product are in the thousands and all but cancel, and so do those of ‖x-y‖²:
    matrix products in float32 keep three digits of the distance. So the points are in float64, where there is one.
    """
    z = z.float() if z.device.type == "mps" else z.double()
    root = curvature**0.5
    scale = z.detach().abs().amax(dim=1, keepdim=True).clamp_min(1)  # so that squares of huge rows do not overflow
    scaled = z / scale
    length = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    far = length * scale > 1e-6
    safe = torch.where(far, length, 1)
    radius = torch.where(far, torch.tanh(root * (safe * scale).clamp_max(LONGEST)).clamp_max(1 - 1e-5), root * length)
    inside = scaled * torch.where(far, radius / safe, root)  # tanh(√c ‖z‖)/‖z‖ → √c at the centre
    return torch.cat([1 + radius**2, 2 * inside], dim=1) / (1 - radius**2)


class BallInfoNCE(PairwiseObjective):
    """InfoNCE with the negative hyperbolic distance d as similarity; reads -cosh(√c d), Lorentz products of points."""

    name = "ball_infonce"
    temperature: float = number(default=0.1, above=0, learnable=True, tune=TEMPERATURES)
    curvature: float = number(default=1.0, above=0)

    def rows(self, z: Tensor) -> Tensor:
        return lorentz_rows(z, self.curvature)

    def metric(self, rows: Tensor) -> Tensor:
        """-p_0 q_0 + p_1 q_1 + …, so that nearer is larger, as on the sphere."""
        signs = torch.ones(rows.shape[1], dtype=rows.dtype, device=rows.device)
        signs[0] = -1
        return signs

    def scaled(self, vectors: Tensor) -> Tensor:
        """Sums of points, scaled back onto the hyperboloid."""
        return vectors * (-(vectors**2 * self.metric(vectors)).sum(dim=1, keepdim=True)).rsqrt()

    def distance(self, product: Tensor) -> Tensor:
        """arccosh(-product)/√c; at coincident points, where its slope is infinite, the gradient is 0."""
        beyond = (-product - 1).clamp_min(1e-6 if product.dtype == torch.float32 else 1e-12)
        length: Tensor = torch.log1p(beyond + (beyond * (beyond + 2)).sqrt())
        return length / math.sqrt(self.curvature)

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        scale = 1 / self.temperature
        others = masked_logsumexp(-self.distance(negatives), mask, scale)
        return softplus(others + self.distance(positive) * scale, threshold=50)


def _share_temperature(objective: Hyperbolic, _: Any = None) -> None:
    """Gives sphere and ball the one temperature, also after another tensor replaced it."""
    objective.sphere.log_temperature = objective.ball.log_temperature = objective.log_temperature


@register("hyperbolic")
class Hyperbolic(Objective):
    """InfoNCE on the sphere plus InfoNCE in the Poincaré ball.

    L = InfoNCE(cosine/τ) + weight · InfoNCE(-d/τ), d = arccosh(1 + 2c‖x-y‖²/((1-c‖x‖²)(1-c‖y‖²)))/√c, with
    x = tanh(√c ‖z‖) z/(√c ‖z‖) and raw rows clipped to norm 2.3; c = ``curvature``.

    Source: Ge et al. 2023 (HCL); the weight and the clip are ours. The clip keeps rows off the rim of the ball, where
    gradients vanish; a row longer than 2.3 counts as one of that length.
    Use it for data with a hierarchy: rows near the centre of the ball can be close to many others.
    Relations: weight 0 is ``infonce``. The length of raw rows matters here.

    >>> x = torch.eye(4, dtype=torch.float64)
    >>> round(Hyperbolic(temperature=1.0, weight=0.0)(x, x).item(), 6)
    0.743668
    """

    source = "Ge et al. 2023"
    temperature: float = number(default=0.1, above=0, learnable=True, tune=TEMPERATURES)
    curvature: float = number(default=1.0, above=0)
    weight: float = number(default=0.1, at_least=0, tune=(0.01, 1.0))

    raw_rows = True
    takes = InfoNCE.takes

    def build(self) -> None:
        common: dict[str, Any] = {"reduction": self.reduction, "gather": self.gather, "learnable": self.learnable}
        start = self.temperature.item() if isinstance(self.temperature, Tensor) else self.temperature
        self.sphere = InfoNCE(temperature=start, **common)
        self.ball = BallInfoNCE(temperature=start, curvature=self.curvature, **common)
        if self.learnable:
            _share_temperature(self)
            self.register_load_state_dict_post_hook(_share_temperature)  # type: ignore[no-untyped-call]

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state, with the one temperature under its own name only."""
        state = super().state_dict(*args, **kwargs)
        for inner in ("sphere", "ball"):
            state.pop(f"{kwargs.get('prefix', '')}{inner}.log_temperature", None)
        return state

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if self.learnable and f"{prefix}log_temperature" in state_dict:
            for inner in ("sphere", "ball"):
                state_dict[f"{prefix}{inner}.log_temperature"] = state_dict[f"{prefix}log_temperature"]
        super()._load_from_state_dict(state_dict, prefix, *args)

    def follow(self) -> None:
        for inner in (self.sphere, self.ball):
            inner.reduction, inner.gather = self.reduction, self.gather
            if not self.learnable:
                inner.temperature = self.temperature
        self.ball.curvature = self.curvature

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        of_sphere = self.sphere.evaluate(inputs, terms)
        ball = self.weight * self.ball.evaluate(inputs, terms=False)["loss"].to(of_sphere["loss"])
        if not terms:
            return {"loss": of_sphere["loss"] + ball}
        return {"loss": of_sphere["loss"] + ball, "sphere": of_sphere["loss"], "ball": ball}
