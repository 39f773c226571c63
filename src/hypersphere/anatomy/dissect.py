"""Taking a loss apart: gradient dissipation, weight and ratio of any callable."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hypersphere.anatomy.coefficients import Coefficients, dissipated_by_antipode, of_callable, of_objective
from hypersphere.anatomy.lemma import ratio_interval
from hypersphere.geometry import normalize, tangent
from hypersphere.objectives import Objective, PairwiseObjective


@dataclass(frozen=True)
class Anatomy:
    """What a loss does to each anchor h_i of the first view: ∂L/∂h_i = GD_i Σ_j W_ij (n_j - R_i h'_i), plus the rest.

    coefficients: ∂L/∂S; dissipation (N,), weight (N, M), ratio (N,): NaN where nothing was measured or nothing moves.
    residual (N,): what of the anchor's tangential gradient coefficients of similarities do not explain, as a share
    of both together. For a loss that is not rotation-invariant (unit Barlow Twins, whose ratio is a matrix) the part of
    it along the positive is counted as the positive's.
    radial (N,): share of the gradient's length that points along the anchor and is wasted.
    """

    name: str
    scope: str
    method: str
    anchors: Tensor  # (N, D) unit rows h_i
    positives: Tensor  # (N, D) h'_i
    negatives: Tensor  # (M, D) the vectors n_j, in the order of the columns of ``weight``
    coefficients: Coefficients
    dissipation: Tensor
    weight: Tensor
    ratio: Tensor
    residual: Tensor
    radial: Tensor
    rotation_invariant: bool

    @property
    def moving(self) -> Tensor:
        """(N,) True where an anchor receives any gradient from its similarities."""
        size = self.coefficients.negative.abs().sum(dim=1) + self.coefficients.positive.abs()
        return size > 1e-9 * size.max().clamp_min(1e-300)

    @property
    def share(self) -> Tensor:
        """(N, M) weights of each anchor as shares of their sum (of absolute values)."""
        total = self.weight.abs().sum(dim=1, keepdim=True)
        return self.weight.abs() / total.clamp_min(1e-300)

    @property
    def effective_negatives(self) -> Tensor:
        """(N,) how many negatives share the weight: the exponential of its entropy."""
        share = self.share
        return torch.exp(-(share * share.clamp_min(1e-300).log()).sum(dim=1))

    @property
    def hardest_share(self) -> Tensor:
        """(N,) share of the weight on the negative closest to the anchor among those with any coefficient."""
        cosines = self.anchors @ self.negatives.T
        used = (self.weight != 0).any(dim=0) & self._counts()
        hardest = torch.where(used, cosines, -math.inf).argmax(dim=1, keepdim=True)
        return self.share.gather(1, hardest).squeeze(1)

    def lemma1(self, step: float = 0.1, negative: str = "hardest") -> Tensor:
        """(N,) True where the ratio lies inside Lemma 1's interval for a step λ; negative "hardest" or "mean"."""
        low, high = self.lemma1_interval(step, negative)
        return (self.ratio > low) & (self.ratio < high)

    def lemma1_interval(self, step: float = 0.1, negative: str = "hardest") -> tuple[Tensor, Tensor]:
        if negative == "mean":
            chosen = self.share @ self.negatives
        else:
            cosines = torch.where(self._counts(), self.anchors @ self.negatives.T, -math.inf)
            chosen = self.negatives[cosines.argmax(dim=1)]
        return ratio_interval(self.anchors, self.positives, chosen, step)

    def parts(self, raw_norms: Tensor | None = None) -> dict[str, Tensor]:
        """The tangential gradient of each anchor split into its alignment and its uniformity part (N, D).

        With ``raw_norms`` (N,) the factor 1/‖g_i‖ of the gradient in the raw vector is put in (Nie et al. drop it).
        """
        pull = tangent(self.coefficients.positive.unsqueeze(1) * self.positives, self.anchors)
        push = tangent(self.coefficients.negative @ self.negatives, self.anchors)
        scale = 1.0 if raw_norms is None else 1 / raw_norms.unsqueeze(1)
        return {"alignment": pull * scale, "uniformity": push * scale}

    def numbers(self, step: float = 0.1) -> dict[str, float]:
        """The measurement in a few numbers."""
        moving = self.moving

        def mean(values: Tensor) -> float:
            chosen = values[moving & values.isfinite()].double()
            return chosen.mean().item() if len(chosen) else math.nan

        return {
            "anchors with gradient": moving.double().mean().item(),
            "mean dissipation": self.dissipation[self.dissipation.isfinite()].mean().item(),
            "effective negatives": mean(self.effective_negatives),
            "weight of the hardest": mean(self.hardest_share),
            "mean ratio": mean(self.ratio),
            f"meeting Lemma 1 (λ={step:g})": mean(self.lemma1(step).double()),
            "radial part wasted": mean(self.radial),
            "not explained by similarities": mean(self.residual),
        }

    def __str__(self) -> str:
        lines = [f"{self.name}, {len(self.anchors)} anchors, scope {self.scope}"]
        lines += [f"  {name:<32} {value:10.4f}" for name, value in self.numbers().items()]
        return "\n".join([*lines, self.verdict(), f"Conventions: {self.method}"])

    def verdict(self) -> str:
        """The same in words."""
        numbers = self.numbers()
        said = []
        alive = numbers["anchors with gradient"]
        if alive == 0:
            said.append("No anchor receives any gradient: the loss has stopped here.")
        elif alive < 0.5:
            said.append(f"Only {alive:.0%} of the anchors still receive gradient.")
        else:
            said.append(f"{alive:.0%} of the anchors receive gradient.")
        if alive and not math.isnan(numbers["effective negatives"]):
            said.append(
                f"Each listens to about {numbers['effective negatives']:.1f} negatives, "
                f"{numbers['weight of the hardest']:.0%} of the weight being on the hardest."
            )
        if not self.rotation_invariant:
            said.append("The loss is not rotation-invariant: it does not depend on inner products alone.")
        if numbers["not explained by similarities"] > 1e-6:
            said.append(
                f"{numbers['not explained by similarities']:.1%} of the gradient is no combination of positives and "
                "negatives, so the paradigm cannot express it."
            )
        return " ".join(said)

    def _counts(self) -> Tensor:
        """(N, M) False at an anchor's own instance."""
        size = len(self.anchors)
        own = torch.eye(size, dtype=torch.bool)
        extra = torch.zeros(size, len(self.negatives) - 2 * size, dtype=torch.bool)
        return ~torch.cat([own, own, extra], dim=1)


def dissect(
    loss: Callable[..., Any],
    z1: Tensor,
    z2: Tensor,
    labels: Tensor | None = None,
    *,
    negatives: Tensor | None = None,
    scope: str = "anchor",
    most_anchors: int = 64,
) -> Anatomy:
    """The anatomy of any loss of two views: one of ours, another library's, a lambda.

    Our pairwise objectives are taken apart from their similarities, in the scope "anchor" (the gradient of L_i in h_i,
    as Li et al. write it) or "batch" (the full gradient of the batch loss in h_i). Any other callable is taken apart
    through autograd, in the scope of the batch; its dissipation is measured on the first ``most_anchors`` anchors by
    sending each one's positive to the antipode. Rows are normalised first, everything is done in float64.

    >>> from hypersphere import create_objective
    >>> x = torch.eye(4)
    >>> y = x + 0.2 * x.roll(1, 0)
    >>> anatomy = dissect(create_objective("infonce", temperature=1.0), x, y)
    >>> torch.allclose(anatomy.ratio, torch.ones(4, dtype=torch.float64))
    True
    """
    if scope not in ("anchor", "batch"):
        raise ValueError(f"scope must be 'anchor' or 'batch', not {scope!r}")
    h, other = (normalize(z.detach().double(), name)[0] for z, name in ((z1, "z1"), (z2, "z2")))
    if h.shape != other.shape or len(h) < 2:
        raise ValueError(f"dissect needs two views of the same shape and at least two rows, not {tuple(z1.shape)}, "
                         f"{tuple(z2.shape)}")  # fmt: skip
    extra = None if negatives is None else normalize(negatives.detach().double(), "negatives")[0]
    columns = torch.cat([other, h, extra if extra is not None else h[:0]])
    if isinstance(loss, PairwiseObjective) and loss.rows is None and loss.reads and loss.only_similarities:
        loss = _in_double(loss)
        found = of_objective(loss, h, other, labels, extra, scope)
        undissipated = of_objective(loss, h, other, labels, extra, scope, without_positive=True).negative.sum(dim=1)
        named, method = (
            repr(loss),
            (
                f"coefficients from the objective's own similarities, scope {scope}; dissipation = sum of an anchor's "
                "negative coefficients over the same with its positive similarity sent to -∞"
            ),
        )
    else:
        call = _callable(loss, labels, negatives)
        scope = "batch" if call(h, other).ndim == 0 else "anchor"
        found = of_callable(call, h, other)
        some = list(range(min(len(h), most_anchors)))
        undissipated = h.new_full((len(h),), math.nan)
        undissipated[: len(some)] = dissipated_by_antipode(call, h, other, some)
        named, method = (
            getattr(loss, "__name__", type(loss).__name__),
            (
                f"coefficients from autograd with a private coordinate for every row, scope {scope}; dissipation = sum "
                "of an anchor's negative coefficients over the same with its positive at the antipode"
            ),
        )
    return _assembled(named, scope, method, loss, labels, negatives, h, other, columns, found, undissipated)


def _assembled(
    name: str, scope: str, method: str, loss: Any, labels: Tensor | None, negatives: Tensor | None,
    h: Tensor, other: Tensor, columns: Tensor, found: Coefficients, undissipated: Tensor,
) -> Anatomy:  # fmt: skip
    explained = found.positive.unsqueeze(1) * other + found.negative @ columns
    residual = h.new_zeros(len(h))
    slope, invariant = _slope(loss, labels, negatives, h, other)
    if scope == "batch" or not isinstance(loss, Objective):
        rest = tangent(slope - explained, h)
        if not invariant:  # a matrix for a ratio, say: its part along the positive counts as the positive's
            along = tangent(other, h)
            more = (rest * along).sum(dim=1) / (along**2).sum(dim=1).clamp_min(1e-300)
            found = replace(found, positive=found.positive + more)
            explained, rest = explained + more.unsqueeze(1) * other, rest - more.unsqueeze(1) * along
        sizes = [torch.linalg.vector_norm(tangent(part, h), dim=1) for part in (slope, explained)]
        residual = torch.linalg.vector_norm(rest, dim=1) / (sizes[0] + sizes[1]).clamp_min(1e-12 * sizes[0].max())
    total = found.negative.sum(dim=1)
    dissipation = torch.where(undissipated.abs() > 1e-12, total / undissipated, math.nan)
    gate = dissipation.unsqueeze(1)
    weight = torch.where(gate > 0, found.negative / gate, found.negative)
    ratio = torch.where(total.abs() > 1e-300, -found.positive / total, math.nan)
    radial = (explained * h).sum(dim=1).abs() / torch.linalg.vector_norm(explained, dim=1)
    return Anatomy(
        name, scope, method, h, other, columns, found, dissipation, weight, ratio, residual, radial, invariant
    )


def _slope(loss: Any, labels: Tensor | None, negatives: Tensor | None, h: Tensor, other: Tensor) -> tuple[Tensor, bool]:
    """Autograd's gradient in the anchors, and whether a rotation of everything leaves the value alone."""
    call = _callable(loss, labels, negatives)
    x = h.clone().requires_grad_()
    with torch.enable_grad():
        value = call(x, other).sum()
        (slope,) = torch.autograd.grad(value, [x])
    generator = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(h.shape[1], h.shape[1], dtype=h.dtype, generator=generator)).Q
    turned = _callable(loss, labels, None if negatives is None else negatives.double() @ turn)(h @ turn, other @ turn)
    return slope, bool((turned.sum() - value).abs() <= 1e-8 * (1 + value.abs()))


def _callable(loss: Any, labels: Tensor | None, negatives: Tensor | None) -> Callable[[Tensor, Tensor], Tensor]:
    if isinstance(loss, Objective):
        extra = None if negatives is None else negatives.double()
        return lambda a, b: loss(a, b, labels, negatives=extra)
    return lambda a, b: loss(a, b)


def _in_double(objective: PairwiseObjective) -> PairwiseObjective:
    """A copy whose parameters do not limit the precision."""
    return copy.deepcopy(objective).double() if any(True for _ in objective.parameters()) else objective
