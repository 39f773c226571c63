"""The measured effect of a loss on its anchors, as numbers, a table and words."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.anatomy.coefficients import Coefficients
from hypersphere.anatomy.lemma import ratio_interval
from hypersphere.geometry import tangent

DISSIPATED = 0.01  # an anchor whose gradient is scaled by less has stopped (the threshold in Li's code)
STEP = 0.1  # λ of Lemma 1
UNEXPLAINED = 5e-4  # a smaller share of the gradient is rounding
KEPT = "gradient kept (1: all, 0: none)"
LEGEND = {
    "gradient kept": "how much of an anchor's push is left beside its positive (Li's dissipation). Near 0 for most "
    "anchors: they have stopped; raise the temperature or margin ('hypersphere advise'), or find harder negatives. 1 "
    "always: nothing ever stops.",
    "effective negatives, weight of the hardest": "how many negatives share the push. About 1: only the hardest "
    "counts, false negatives included; raise the temperature. About all of them: hard ones hardly count; lower it.",
    "ratio": "pull towards the positive over the push away from negatives. Below Lemma 1's lower end a step leads away "
    "from the positive: weigh the positive more, or take smaller steps.",
    "alignment, uniformity": "lengths of the two parts of the gradient along the sphere, comparable within a table.",
    "radial": "share of the gradient along the anchor, which normalising throws away; of the gradient in inner "
    "products (the same loss written in distances has another).",
    "not explained": "share of the gradient that is no combination of positives and negatives.",
}


@dataclass(frozen=True)
class Anatomy:
    """The gradient of a loss in each anchor h_i of the first view: ∂L/∂h_i = GD_i Σ_j W_ij (n_j - R_i h'_i) + residual.

    coefficients: ∂L/∂S; dissipation (N,), weight (N, M), ratio (N,): NaN where nothing was measured or nothing moves.
    measured (N,): False for anchors whose dissipation was not measured.
    Labels may give an anchor positives of other instances. These have no weight, and R_i h'_i stands for the pull of
    all positives; Lemma 1 treats this pull as if all of it went to h'_i.
    residual (N,): the part of the anchor's tangential gradient that the coefficients of similarities do not explain,
    as a share of both together. For a loss that is not rotation-invariant (unit Barlow Twins, whose ratio is a matrix)
    the part of it along the positive is counted as the positive's.
    radial (N,): share of the gradient's length that points along the anchor and is wasted.
    """

    name: str
    scope: str
    method: str
    anchors: Tensor  # (N, D) unit rows h_i
    positives: Tensor  # (N, D) h'_i
    negatives: Tensor  # (M, D) the vectors n_j, in the order of the columns of ``weight``
    inverse_norms: Tensor  # (N, 1) 1/‖g_i‖ of the raw rows
    coefficients: Coefficients
    dissipation: Tensor
    measured: Tensor
    weight: Tensor
    ratio: Tensor
    residual: Tensor
    radial: Tensor
    rotation_invariant: bool

    @property
    def moving(self) -> Tensor:
        """(N,) True where an anchor receives any gradient from its similarities."""
        size = self.coefficients.size
        return size > 1e-9 * size.max().clamp_min(1e-300)

    @property
    def alive(self) -> Tensor:
        """(N,) True where an anchor still receives gradient: it moves, and its dissipation is not below 0.01."""
        return self.moving & ~(self.dissipation.abs() < DISSIPATED)

    @property
    def share(self) -> Tensor:
        """(N, M) weights of each anchor as shares of their sum (of absolute values)."""
        total = self.weight.abs().sum(dim=1, keepdim=True)
        return self.weight.abs() / total.clamp_min(1e-300)

    @property
    def effective_negatives(self) -> Tensor:
        """(N,) how many negatives share the weight: the exponential of its entropy; NaN where none has any."""
        share = self.share
        number = torch.exp(-(share * share.clamp_min(1e-300).log()).sum(dim=1))
        return torch.where(share.any(dim=1), number, math.nan)

    @property
    def hardest_share(self) -> Tensor:
        """(N,) share of the weight on the hardest negative; NaN where none has any weight."""
        share = self.share
        share_of_hardest = share.gather(1, self.hardest.unsqueeze(1)).squeeze(1)
        return torch.where(share.any(dim=1), share_of_hardest, math.nan)

    @property
    def hardest(self) -> Tensor:
        """(N,) column of the negative closest to the anchor, among those the loss compares anchors with."""
        cosines = self.anchors @ self.negatives.T
        return torch.where(self.compared, cosines, -math.inf).argmax(dim=1)

    @property
    def compared(self) -> Tensor:
        """(N, M) ``counted``, limited to the kinds (other view, own view, extra) where some negative has a weight."""
        size = len(self.anchors)
        kinds = self.weight.split([size, size, len(self.negatives) - 2 * size], dim=1)
        return self.counted & torch.cat([(kind != 0).any().expand(kind.shape) for kind in kinds], dim=1)

    @property
    def counted(self) -> Tensor:
        """(N, M) False at an anchor's own instance, at other instances that are its positives, and at those that ids or
        a guide leave out."""
        size = len(self.anchors)
        own = torch.eye(size, dtype=torch.bool, device=self.anchors.device)
        extra = own.new_zeros(size, len(self.negatives) - 2 * size)
        left_out = torch.cat([own, own, extra], dim=1)
        for each in (self.coefficients.same_label, self.coefficients.dropped):
            left_out = left_out if each is None else left_out | each
        return ~left_out

    def lemma1(self, step: float = STEP, negative: str = "hardest") -> Tensor:
        """(N,) True where the ratio lies between both ends of Lemma 1's interval for a step λ."""
        low, high = self.lemma1_interval(step, negative)
        return (self.ratio > low) & (self.ratio < high)

    def lemma1_interval(self, step: float = STEP, negative: str = "hardest") -> tuple[Tensor, Tensor]:
        """Both ends (N,), with the "hardest" negative of each anchor or the "mean" of all by their weights."""
        if negative == "mean":
            chosen = self.share @ self.negatives
        elif negative == "hardest":
            chosen = self.negatives[self.hardest]
        else:
            raise ValueError(f"negative must be 'hardest' or 'mean', not {negative!r}")
        return ratio_interval(self.anchors, self.positives, chosen, step)

    def parts(self, raw: bool = False) -> dict[str, Tensor]:
        """The tangential gradient of each anchor split into its alignment and its uniformity part, (N, D) each.

        The split of Nie et al. 2023, which drops the factor 1/‖g_i‖ of the gradient in the raw vector; ``raw`` keeps
        the factor.
        """
        coefficients = self.coefficients
        pull = tangent(
            coefficients.positive.unsqueeze(1) * self.positives + coefficients.relative @ self.negatives, self.anchors
        )
        push = tangent(coefficients.negative @ self.negatives, self.anchors)
        scale = self.inverse_norms if raw else 1.0
        return {"alignment": pull * scale, "uniformity": push * scale}

    def numbers(self, step: float = STEP, negative: str = "hardest") -> dict[str, float]:
        """The measurement in a few numbers: means over the anchors that move, with Lemma 1 for a step λ."""
        moving = self.moving

        def mean(values: Tensor) -> float:
            chosen = values[moving & values.isfinite()].double()
            return chosen.mean().item() if len(chosen) else math.nan

        lengths = {name: torch.linalg.vector_norm(part, dim=1) for name, part in self.parts().items()}
        return {
            "anchors with gradient": self._share_alive(),
            KEPT: self.dissipation[self.dissipation.isfinite()].mean().item(),
            "effective negatives": mean(self.effective_negatives),
            "weight of the hardest": mean(self.hardest_share),
            "mean ratio": mean(self.ratio),
            f"meeting Lemma 1 (λ={step:g}, {negative})": mean(
                self.lemma1(step, negative).double().where(self.ratio.isfinite(), math.nan)
            ),
            **{f"Lemma 1's lower end, {name}": value for name, value in self._lower_end(step, negative).items()},
            "length of the alignment part": mean(lengths["alignment"]),
            "length of the uniformity part": mean(lengths["uniformity"]),
            "radial part, in inner products": mean(self.radial),
            "not explained by similarities": mean(self.residual),
        }

    def _lower_end(self, step: float, negative: str) -> dict[str, float]:
        """The smallest ratio that brings an anchor closer to its positive, over the anchors that move."""
        low, _ = self.lemma1_interval(step, negative)
        low = low[self.moving & self.ratio.isfinite() & low.isfinite()]
        shares = {"10%": 0.1, "median": 0.5, "90%": 0.9}
        return {name: torch.quantile(low, q).item() if len(low) else math.nan for name, q in shares.items()}

    def __str__(self) -> str:
        return self.report()

    def report(self, step: float = STEP, negative: str = "hardest") -> str:
        """Table, words and conventions."""
        lines = [f"{self.name}, {len(self.anchors)} anchors, scope {self.scope}"]
        lines += [f"  {name:<34} {value:10.4f}" for name, value in self.numbers(step, negative).items()]
        return "\n".join([*lines, self.verdict(step, negative), f"Conventions: {self.conventions}."])

    @property
    def conventions(self) -> str:
        return (
            f"{self.method}; an anchor counts as receiving gradient from a dissipation of {DISSIPATED:g} on; means are "
            "over the anchors that move at all; lengths without the factor 1/‖g‖; radial: of the gradient in inner "
            "products"
        )

    def verdict(self, step: float = STEP, negative: str = "hardest") -> str:
        """The same in words."""
        numbers = self.numbers(step, negative)
        said = [self._life(numbers)]
        if self.moving.any() and not math.isnan(numbers["effective negatives"]):
            said.append(
                f"The push on an anchor comes from about {numbers['effective negatives']:.1f} negatives, "
                f"{numbers['weight of the hardest']:.0%} of it from the hardest."
            )
        elif self.moving.any():
            said.append("No negative has any weight.")
        if self.moving.any() and not math.isnan(numbers["mean ratio"]):
            closer = numbers[f"meeting Lemma 1 (λ={step:g}, {negative})"]
            which = "the hardest negative" if negative == "hardest" else "the mean negative"
            said.append(
                f"The pull is {numbers['mean ratio']:.2f} times the push: with a step of {step:g}, {closer:.0%} get "
                f"closer to their positive (Lemma 1, both ends, against {which})."
            )
        if self.moving.any() and self._stands(numbers):
            said.append("None of it moves them: positives and negatives lie along their anchors.")
        elif self.moving.any() and not math.isnan(numbers["mean ratio"]):
            radial = numbers["radial part, in inner products"]
            said.append(f"{radial:.0%} of the gradient's length (in inner products) is radial and wasted.")
        if not self.rotation_invariant:
            said.append("The loss is not rotation-invariant: it does not depend on inner products alone.")
        if numbers["not explained by similarities"] > UNEXPLAINED:
            said.append(
                f"{numbers['not explained by similarities']:.1%} of the gradient is no combination of positives and "
                "negatives, so the paradigm cannot express it."
            )
        return " ".join(said)

    def _share_alive(self) -> float:
        """Share of the anchors with measured dissipation that still receive gradient."""
        return self.alive[self.measured].double().mean().item()

    def _stands(self, numbers: dict[str, float]) -> bool:
        """Whether neither part of the gradient has a tangential direction, up to rounding."""
        lengths = (numbers[f"length of the {part} part"] for part in ("alignment", "uniformity"))
        return all(length < 1e-9 * float(self.coefficients.size.mean()) for length in lengths)

    def _life(self, numbers: dict[str, float]) -> str:
        """How many anchors still receive gradient."""
        alive, gate = numbers["anchors with gradient"], numbers[KEPT]
        other = numbers["not explained by similarities"] > UNEXPLAINED
        source = " from positives and negatives" if other else ""
        if not self.moving.any():
            return f"No anchor receives any gradient{source}: the loss has stopped here."
        if alive == 0:
            stopped = "" if other else ": the loss has all but stopped"
            return f"No anchor receives 1% of its gradient{source}{stopped} ({gate:.2%} of it is kept)."
        only = "Only " if alive < 0.5 else ""
        known = "" if math.isnan(gate) else f", keeping {gate:.2%} of it on average"
        return f"{only}{alive:.0%} of the anchors still receive gradient{source}{known}."
