"""SPHERE-JEPA: prediction on the sphere, and a test of each view for the uniform law."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from hypersphere.engine import Anchors, Inputs, Statistics, count, evaluate_features, masked_mean, masked_sum
from hypersphere.geometry import unit
from hypersphere.geometry.zonal import characteristic_function, polynomial, sphere_test
from hypersphere.objectives.base import FeatureObjective, PairwiseObjective
from hypersphere.objectives.characteristic import Grid, characteristic_distance
from hypersphere.objectives.prediction import PredictionObjective
from hypersphere.objectives.registry import register
from hypersphere.objectives.settings import choice, number
from hypersphere.objectives.slices import SlicedObjective


@register("sphere_jepa")
class SphereJEPA(SlicedObjective, PredictionObjective, PairwiseObjective):
    """Prediction of unit rows, and a test of each view for the uniform law on the sphere.

    L = (1-λ) mean over views and rows of ‖h-μ‖² + λ mean over views of the test, λ = ``weight``, μ_n the mean of the
    instance's global views (the first ``num_global``, None: all). With a kernel φ, φ(1) = 1, and all ordered pairs of
    rows of a view, j = i too:
    mmd: (mean φ(a_ij) - C)/(1 - C), C the mean of φ under the uniform law; ksd: the same of the Stein kernel
    ½[(a²-1)φ'' + (D-1)aφ']; kl: mean_i log mean_{j≠i} φ(a_ij); sliced: ``sigreg``'s test on random directions, against
    the law of one coordinate of a uniform unit vector (with ``knots``, ``t_max``, ``num_slices``, ``seed``).
    kernel: heat at the time ``time``/D, bandlimited (harmonics up to degree ``cutoff``), or induced (that of the
    sliced test averaged over all directions).

    Source: Nicollier et al. 2026 (mmd, ksd: λ 0.05, time 5, cutoff 2; kl: λ 0.5, time 2; sliced: λ 0.05).
    Use it without negatives or teacher where rows are compared by their cosine. The tests of pairs cost N², as
    ``kcl``; sliced is linear in N.
    Relations: mmd has the gradient of ``kcl``'s energy with the same kernel, times (N-1)/N; cutoff 1 is ‖mean h‖². ksd
    is mmd with every degree weighted by its eigenvalue. kl with φ = e^{(c-1)/τ} is the energy of ``dhel``. Equal rows
    have 1 (mmd, ksd) or 0 (kl), uniform ones 1/N on average (mmd, ksd). The paper divides kl by -log of the sphere's
    area, which changes its sign up to D = 18; that is ``printed/sphere_jepa``.

    >>> x = torch.eye(3)
    >>> round(SphereJEPA(weight=1.0, kernel="bandlimited", cutoff=1)(x, x).item(), 6)
    0.333333
    """

    source = "Nicollier et al. 2026"
    nature: ClassVar[str] = "tests the whole sample"
    reductions: ClassVar[tuple[str, ...]] = ("mean",)
    takes: ClassVar[frozenset[str]] = frozenset({"views"})
    fewest: ClassVar[int] = 2
    anchors = "both"
    test: str = choice("mmd", "ksd", "kl", "sliced", default="mmd")
    kernel: str = choice("heat", "bandlimited", "induced", default="heat")
    time: float = number(default=5.0, above=0, tune=(1.0, 10.0))
    cutoff: int = number(default=2, at_least=1, whole=True)
    knots: int = number(default=17, at_least=2, whole=True)
    t_max: float = number(default=3.0, above=0)

    def check(self) -> None:
        super().check()
        if self.test == "kl" and self.kernel == "bandlimited":
            raise ValueError("sphere_jepa's test 'kl' takes a logarithm, and the bandlimited kernel may be negative")

    @property
    def negatives(self) -> Any:
        return () if self.test == "sliced" else "same"

    @property
    def only_similarities(self) -> bool:
        return self.num_global in (None, 2)

    def map_pairwise(self, change: Any) -> Any:
        raise ValueError("sphere_jepa tests the whole sample: it has no negatives to mix")

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        self.refuse_unused(inputs)
        if self.test == "sliced":
            values = evaluate_features(_Features(self), inputs, terms)
            self.advance()
            return values
        values = PairwiseObjective.evaluate(self, inputs, terms)
        if self._centres_all(len(inputs.all_views)):
            return values
        predicted = evaluate_features(_Features(self), inputs, terms)  # ``block`` has left the prediction out
        return {name: value + predicted.get(name, 0) for name, value in values.items()}

    def _centres_all(self, num_views: int) -> bool:
        return self.num_global in (None, num_views)

    def features(self, *views: Tensor) -> Statistics:
        """The prediction of unit rows, and the sliced test if it is that."""
        dim = _dimension(views[0])
        prediction = (1 - self.weight) * dim * self.prediction(views)
        if self.test != "sliced":
            return {"loss": prediction, "prediction": prediction}
        directions = self.columns(views[0])
        knots = Grid.knots(self.knots, self.t_max)
        grid = Grid.trapezoid(knots, law=characteristic_function(knots, dim))
        distances = torch.stack([characteristic_distance(h, directions, grid) for h in views])
        regulariser = self.weight * distances.mean()
        return {"loss": prediction + regulariser, "prediction": prediction, "regulariser": regulariser}

    def block(self, anchors: Anchors) -> Statistics:
        (cosines,), (mask,) = anchors.negatives, anchors.masks
        dim = _dimension(anchors.rows)
        values = polynomial(cosines, sphere_test(self.test, self.kernel, dim, self.time, self.cutoff))
        if self.test == "kl":
            test = masked_mean(values, mask).clamp_min(torch.finfo(values.dtype).tiny).log()
        else:
            test = (1 + masked_sum(values, mask)) / (1 + count(mask))  # the pair (i, i) has 1
        regulariser = self.weight * test
        prediction = (1 - self.weight) * self._prediction_of(anchors)
        return {"loss": prediction + regulariser, "prediction": prediction, "regulariser": regulariser}

    def _prediction_of(self, anchors: Anchors) -> Tensor:
        """‖h-μ‖² (B,) of the anchors, if all views of an instance make its centre; if not, 0."""
        num_views = 1 + len(anchors.other_views)
        if not self._centres_all(num_views):
            return torch.zeros_like(anchors.positive)
        if num_views == 2:
            return (1 - anchors.positive) / 2
        centre = sum(anchors.other_views, anchors.rows) / num_views
        return (anchors.rows - centre).square().sum(dim=1)


class _Features(FeatureObjective):
    """What the objective computes of the rows of all processes at once."""

    name = SphereJEPA.name

    def __init__(self, whole: SphereJEPA) -> None:
        super().__init__(gather=whole.gather)
        self.of_rows = whole.features  # a bound method, and no submodule

    def features(self, *views: Tensor) -> Statistics:
        return self.of_rows(*(unit(z) for z in views))


def _dimension(rows: Tensor) -> int:
    if rows.shape[1] < 2:
        raise ValueError("sphere_jepa needs rows of at least two dimensions, not 1")
    return rows.shape[1]
