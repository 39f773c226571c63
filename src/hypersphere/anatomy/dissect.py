"""Taking a loss apart: gradient dissipation, weight and ratio of any callable."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.anatomy.anatomy import Anatomy
from hypersphere.anatomy.coefficients import (
    Coefficients,
    Loss,
    Views,
    anchor_scale,
    gradient,
    of_callable,
    of_objective,
    same_label_of,
    undissipated,
    without_positives,
)
from hypersphere.engine import Inputs
from hypersphere.engine.batch import Direction
from hypersphere.engine.inputs import assemble, check_inputs
from hypersphere.geometry import normalize, tangent, unit
from hypersphere.objectives import Objective, PairwiseObjective, within
from hypersphere.objectives.anchors import CLOA
from hypersphere.objectives.guided import Guided

REFLECTIONS = 8  # even, so that they make a rotation; two move too little in a thousand dimensions


def dissect(
    loss: Callable[..., Any],
    z1: Tensor,
    z2: Tensor,
    labels: Tensor | None = None,
    *,
    negatives: Tensor | None = None,
    ids: Tensor | None = None,
    ids_negatives: Tensor | None = None,
    guide: Tensor | tuple[Tensor, ...] | None = None,
    guide_negatives: Tensor | None = None,
    scores: Tensor | None = None,
    scope: str = "anchor",
    most_anchors: int = 64,
    name: str | None = None,
) -> Anatomy:
    """The anatomy of any loss of two views: one of ours, another library's, a lambda.

    Our pairwise objectives are taken apart from their similarities, in the scope "anchor" (the gradient of L_i in h_i,
    as Li et al. write it) or "batch" (the full gradient of the batch loss in h_i). Any other callable is taken apart
    through autograd, in the scope of the batch (of their sum, if it returns several numbers); its dissipation is
    measured on the first ``most_anchors`` anchors by moving each one's positive to the antipode. CLOA and ``guided``
    are taken apart like their base. A gradient that no combination of positives and negatives expresses, such as CLOA's
    pull, is reported as a residual. Rows are normalised first, and everything is computed in float64.

    Dissipation compares an anchor's push with that of the same negatives without its positive: with the positive
    similarity at -∞ where the push has a finite limit there, else (a squared hinge, an angle) at -1, the antipode. The
    vectors of a plain function end at the antipode, so its limit is extrapolated from the path there.

    ``labels``, and ``negatives``, ``ids``, ``guide`` and ``scores`` as in an objective's call, reach our objectives
    only. A pair that ids or a guide leave out has the coefficient 0 and is no negative. Where labels make rows of other
    instances positives (supcon), all of them pull: dissipation is measured without any of them, and the ratio counts
    their pulls together. ``name`` is the name of the loss in the result.

    >>> from hypersphere import create_objective
    >>> x = torch.eye(4)
    >>> y = x + 0.2 * x.roll(1, 0)
    >>> anatomy = dissect(create_objective("infonce", temperature=1.0), x, y)
    >>> torch.allclose(anatomy.ratio, torch.ones(4, dtype=torch.float64))
    True
    """
    given = Inputs(z1, z2, labels, negatives, (), ids, ids_negatives, guide, guide_negatives, scores)
    _check_call(loss, given, scope, most_anchors)
    (h, inverse_norms), (other, _) = (normalize(z.detach().double(), view) for z, view in ((z1, "z1"), (z2, "z2")))
    extra = None if negatives is None else normalize(negatives.detach().double(), "negatives")[0]
    given = replace(given, z1=h, z2=other, negatives=extra)
    views = (h, other) if extra is None else (h, other, extra)
    loss = _in_double(loss)
    inner, inputs = _without_wrappers(loss, given)
    anchored = any(isinstance(each, CLOA) for each in within(loss))
    call, inner_call = _callable(loss, given), _callable(inner, inputs)
    with torch.enable_grad():  # an error raised here is the callable's own
        value = call(h.clone().requires_grad_(), *views[1:])
    if isinstance(inner, PairwiseObjective) and inner.rows is None and inner.reads and inner.only_similarities:
        if inner.metric(h) is not None:
            scope = "batch"  # whose gradient shows how much of it is no combination of the vectors
        coefficients = of_objective(inner, inputs, scope)
        whole, far = without_positives(inner, inputs, scope)
        method = "coefficients from the objective's own similarities"
    else:
        scope = "batch"
        if not value.requires_grad:
            raise ValueError("the loss does not depend on its first view, so there are no anchors to dissect")
        related = (
            same_label_of(labels, len(_columns(views)) - 2 * len(h)) if labels is not None and _labelled(loss) else None
        )
        coefficients = _by_autograd(inner_call, views, related)
        if isinstance(inner, PairwiseObjective) and inner.reads and inner.one_sided:  # it only opens gates
            whole, far = without_positives(inner, inputs, scope)
        else:
            whole, far = _at_the_antipode(inner_call, views, coefficients, most_anchors)
        method = "coefficients from autograd with a private coordinate for every row"
    invariant = _rotation_invariant(call, views, value.detach())
    if scope == "batch":
        coefficients, residual = _left_over(
            call, coefficients, views, shared=not invariant and (not anchored or labels is None)
        )
    elif anchored:
        pull = gradient(call, views) - gradient(inner_call, views)
        residual = _share(tangent(pull * anchor_scale(inner, inputs), h), coefficients, views)
    else:
        residual = h.new_zeros(len(h))
    dropped = dropped_pairs(inner, inputs)
    if dropped is not None:  # a guide may drop a pair for one of its rows, and the other still moves both
        coefficients = replace(coefficients, dropped=dropped & (coefficients.columns == 0))
    rows = h.any(dim=1)  # a zero row receives no gradient
    coefficients, measured = coefficients.of_anchors(rows), ~whole.isnan()
    total, whole = coefficients.negative.sum(dim=1), torch.where(rows, whole, 0.0)
    dissipation = torch.where(whole.abs() > 1e-12, total / whole, math.nan)
    gate = dissipation.unsqueeze(1)
    explained = _explained(coefficients, views)
    return Anatomy(
        name=name or _named(loss),
        scope=scope,
        method=f"{method}, scope {scope}; dissipation = sum of an anchor's negative coefficients "
        f"over the same with its positive {far}",
        anchors=h,
        positives=other,
        negatives=_columns(views),
        inverse_norms=inverse_norms,
        coefficients=coefficients,
        dissipation=dissipation,
        measured=measured,
        weight=torch.where(gate > 0, coefficients.negative / gate, coefficients.negative),
        ratio=torch.where(total.abs() > 1e-300, -coefficients.pull / total, math.nan),
        residual=residual,
        radial=(explained * h).sum(dim=1).abs() / torch.linalg.vector_norm(explained, dim=1),
        rotation_invariant=invariant,
    )


def _check_call(loss: Any, given: Inputs, scope: str, most_anchors: int) -> None:
    """Raises unless the loss can be dissected with these settings and tensors."""
    if scope not in ("anchor", "batch"):
        raise ValueError(f"scope must be 'anchor' or 'batch', not {scope!r}")
    if most_anchors < 1:
        raise ValueError(f"most_anchors must be at least 1, not {most_anchors}")
    if isinstance(loss, Objective):
        loss.refuse_missing(given)
    elif more := [each for each in given.given if each != "labels"]:
        raise ValueError(f"{more[0]}= is for hypersphere's objectives; any other loss is called with two views alone")
    check_inputs(_without_wrappers(loss, given)[1])
    if given.negatives is not None and given.negatives.ndim == 3:
        raise ValueError("dissect takes negatives (M, D) that all anchors share, not each anchor's own (N, M, D)")
    if len(given.z1) < 2:
        raise ValueError(f"dissect needs at least two rows, not {len(given.z1)}")


def _labelled(loss: Any) -> bool:
    """Whether rows of other instances may be positives, by their label."""
    return any(getattr(each, "labelled", False) for each in within(loss))


def _without_wrappers(loss: Any, inputs: Inputs) -> tuple[Any, Inputs]:
    """The loss without CLOA's term and without a wrapper that only finds negatives to drop; and the arguments of
    its call."""
    loss = _without_anchors(loss)
    if isinstance(loss, Guided):
        return _without_wrappers(loss.base, loss.judged(inputs))
    return loss, inputs


def _without_anchors(loss: Any) -> Any:
    """The loss without CLOA's term. That term is tied to directions of its own, so it belongs to the residual."""
    if isinstance(loss, CLOA):
        return _without_anchors(loss.base)
    base = getattr(loss, "base", None)
    if not isinstance(loss, Objective) or base is None or (inner := _without_anchors(base)) is base:
        return loss
    common = ("base", "reduction", "learnable")
    return type(loss)(base=inner, **{name: getattr(loss, name) for name in loss.settings() if name not in common})


def dropped_pairs(loss: Any, inputs: Inputs) -> Tensor | None:
    """(N, 2N + M) True at the pairs of the first view's anchors that ids or a guide leave out, in the order of
    ``Coefficients.columns``; None: nothing is left out."""
    inner, inputs = _without_wrappers(loss, inputs)
    if getattr(inner, "reads_guide", False) or (inputs.ids is None and inputs.guide is None):
        return None
    batch, _ = assemble(PairwiseObjective(), inputs)
    return ~Direction(batch, 0, reads=("both",), with_extra=("both",)).mask("both", slice(0, batch.size))


def _by_autograd(call: Loss, views: Views, same_label: Tensor | None) -> Coefficients:
    """Coefficients of any callable."""
    try:
        return of_callable(call, views, same_label)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"the loss works on the rows as they are but not on longer ones, so it is tied to their "
            f"{views[0].shape[1]} dimensions and no function of inner products ({str(error).splitlines()[0]})"
        ) from error


def _at_the_antipode(call: Loss, views: Views, coefficients: Coefficients, most: int) -> tuple[Tensor, str]:
    """Sums (N,) of the negatives' coefficients without dissipation, NaN beyond ``most`` anchors; and how, in words."""
    size = len(views[0])
    some = list(range(min(size, most)))
    whole = views[0].new_full((size,), math.nan)
    whole[: len(some)] = undissipated(call, views, coefficients, some)
    first = f" (of the first {most} anchors)" if size > most else ""
    return whole, f"at the antipode, or beyond it where the sum has a limit{first}, 1 where it plays no part"


def _left_over(call: Loss, coefficients: Coefficients, views: Views, shared: bool) -> tuple[Coefficients, Tensor]:
    """The share (N,) of the tangential gradient that the coefficients do not explain. ``shared``: the part of it along
    the positive counts as the positive's (a matrix for a ratio)."""
    h, other = views[:2]
    rest = tangent(gradient(call, views) - _explained(coefficients, views), h)
    if shared:
        along = tangent(other, h)
        more = (rest * along).sum(dim=1) / (along**2).sum(dim=1).clamp_min(1e-300)
        coefficients = replace(coefficients, positive=coefficients.positive + more)
        rest = rest - more.unsqueeze(1) * along
    return coefficients, _share(rest, coefficients, views)


def _share(rest: Tensor, coefficients: Coefficients, views: Views) -> Tensor:
    """(N,) share of the unexplained tangential gradient, relative to the lengths of the whole and explained parts."""
    explained = tangent(_explained(coefficients, views), views[0])
    sizes = [torch.linalg.vector_norm(part, dim=1) for part in (explained + rest, explained)]
    share: Tensor = torch.linalg.vector_norm(rest, dim=1) / (sizes[0] + sizes[1]).clamp_min(1e-12 * sizes[0].max())
    return share


def _columns(views: Views) -> Tensor:
    """The vectors of all negatives, in the order of ``Coefficients.columns``."""
    return torch.cat([views[1], views[0], *views[2:]])


def _explained(coefficients: Coefficients, views: Views) -> Tensor:
    """The gradient in the anchors that follows from the coefficients: (N, D)."""
    return coefficients.positive.unsqueeze(1) * views[1] + coefficients.columns @ _columns(views)


def _rotation_invariant(call: Loss, views: Views, value: Tensor) -> bool:
    """Whether a rotation of all rows leaves the value unchanged, up to its precision."""
    with torch.no_grad():
        value, turned = value.sum(), call(*map(rotated, views)).sum()
    allowed = 1e-8 if value.dtype == torch.float64 else 1e-4
    return bool((turned - value).abs() <= allowed * (1 + value.abs()))


def rotated(rows: Tensor) -> Tensor:
    """Rows (N, D) after a rotation that depends on D alone, made of reflections r - 2 (r·v) v: no D×D matrix."""
    generator = torch.Generator().manual_seed(0)
    mirrors = unit(torch.randn(REFLECTIONS, rows.shape[1], dtype=torch.float64, generator=generator)).to(rows)
    for mirror in mirrors:
        rows = rows - torch.outer(rows @ mirror, 2 * mirror)
    return rows


def _callable(loss: Any, inputs: Inputs) -> Loss:
    """The loss as a function of both views and, optionally, extra negatives; all else is as in ``inputs``."""
    if isinstance(loss, Objective):
        return lambda a, b, extra=None: loss.evaluate(replace(inputs, z1=a, z2=b, negatives=extra), terms=False)["loss"]
    return lambda a, b: loss(a, b)


def _named(loss: Any) -> str:
    return repr(loss) if isinstance(loss, Objective) else str(getattr(loss, "__name__", type(loss).__name__))


def _in_double(loss: Any) -> Any:
    """A copy whose parameters do not limit the precision, if it has any; our objectives in evaluation mode, where
    random directions are the same in every call."""
    if isinstance(loss, Objective):
        return copy.deepcopy(loss).double().eval()
    if isinstance(loss, nn.Module) and any(True for _ in loss.parameters()):
        return copy.deepcopy(loss).double()
    return loss
