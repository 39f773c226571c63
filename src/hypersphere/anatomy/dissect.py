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
from hypersphere.anatomy.coefficients import Coefficients, of_callable, of_objective, relatives_of, undissipated
from hypersphere.geometry import normalize, tangent, unit
from hypersphere.objectives import Objective, PairwiseObjective
from hypersphere.objectives.anchors import CLOA

Loss = Callable[[Tensor, Tensor], Tensor]
REFLECTIONS = 8  # even, so that they make a rotation; two move too little in a thousand dimensions


def dissect(
    loss: Callable[..., Any],
    z1: Tensor,
    z2: Tensor,
    labels: Tensor | None = None,
    *,
    negatives: Tensor | None = None,
    scope: str = "anchor",
    most_anchors: int = 64,
    name: str | None = None,
) -> Anatomy:
    """The anatomy of any loss of two views: one of ours, another library's, a lambda.

    Our pairwise objectives are taken apart from their similarities, in the scope "anchor" (the gradient of L_i in h_i,
    as Li et al. write it) or "batch" (the full gradient of the batch loss in h_i). Any other callable is taken apart
    through autograd, in the scope of the batch; its dissipation is measured on the first ``most_anchors`` anchors by
    sending each one's positive to the antipode. What no combination of positives and negatives expresses is reported
    as a residual. Rows are normalised first, everything is done in float64. ``labels`` reach our objectives only, and
    where these make rows of other instances positives (supcon) all of them pull: dissipation is measured without any
    of them, and the ratio counts their pulls together. ``name`` is how the result calls the loss.

    >>> from hypersphere import create_objective
    >>> x = torch.eye(4)
    >>> y = x + 0.2 * x.roll(1, 0)
    >>> anatomy = dissect(create_objective("infonce", temperature=1.0), x, y)
    >>> torch.allclose(anatomy.ratio, torch.ones(4, dtype=torch.float64))
    True
    """
    if scope not in ("anchor", "batch"):
        raise ValueError(f"scope must be 'anchor' or 'batch', not {scope!r}")
    (h, inverse_norms), (other, _) = (normalize(z.detach().double(), view) for z, view in ((z1, "z1"), (z2, "z2")))
    if h.shape != other.shape or len(h) < 2:
        raise ValueError(f"dissect needs two views of the same shape and at least two rows, not {tuple(z1.shape)}, "
                         f"{tuple(z2.shape)}")  # fmt: skip
    extra = None if negatives is None else normalize(negatives.detach().double(), "negatives")[0]
    loss = _in_double(loss)
    call = _callable(loss, labels, extra)
    if isinstance(loss, PairwiseObjective) and loss.rows is None and loss.reads and loss.only_similarities:
        found = of_objective(loss, h, other, labels, extra, scope)
        whole = of_objective(loss, h, other, labels, extra, scope, without_positive=True).negative.sum(dim=1)
        method = "coefficients from the objective's own similarities", "similarity sent to -∞"
    else:
        scope = "batch" if call(h, other).ndim == 0 else "anchor"
        # What CLOA adds to its base is tied to directions of its own, so it belongs to what is left over.
        inner = _callable(loss.base, labels, extra) if isinstance(loss, CLOA) else call
        related = relatives_of(labels, 0) if labels is not None and _knows_relatives(loss) else None
        found, whole = _by_autograd(inner, h, other, most_anchors, related)
        first = f" (of the first {most_anchors} anchors)" if len(h) > most_anchors else ""
        method = (
            "coefficients from autograd with a private coordinate for every row",
            f"at the antipode{first}, 1 where it plays no part",
        )
    said = f"{method[0]}, scope {scope}; dissipation = sum of an anchor's negative coefficients over the same with its "
    invariant = _rotation_invariant(loss, labels, extra, h, other)
    if scope == "batch" or not isinstance(loss, Objective):
        found, residual = _left_over(call, found, h, other, extra, shared=not invariant and not isinstance(loss, CLOA))
    else:
        residual = h.new_zeros(len(h))
    total = found.negative.sum(dim=1)
    dissipation = torch.where(whole.abs() > 1e-12, total / whole, math.nan)
    gate = dissipation.unsqueeze(1)
    explained = _explained(found, h, other, extra)
    return Anatomy(
        name=name or _named(loss),
        scope=scope,
        method=f"{said}positive {method[1]}",
        anchors=h,
        positives=other,
        negatives=_columns(h, other, extra),
        inverse_norms=inverse_norms,
        coefficients=found,
        dissipation=dissipation,
        weight=torch.where(gate > 0, found.negative / gate, found.negative),
        ratio=torch.where(total.abs() > 1e-300, -found.pull / total, math.nan),
        residual=residual,
        radial=(explained * h).sum(dim=1).abs() / torch.linalg.vector_norm(explained, dim=1),
        rotation_invariant=invariant,
    )


def _knows_relatives(loss: Any) -> bool:
    """Whether rows of other instances may be positives, by their label."""
    return _knows_relatives(loss.base) if isinstance(loss, CLOA) else bool(getattr(loss, "labelled", False))


def _by_autograd(
    call: Loss, h: Tensor, other: Tensor, most_anchors: int, relatives: Tensor | None
) -> tuple[Coefficients, Tensor]:
    """Coefficients of any callable, and the sums of its negatives' without dissipation (NaN for the anchors beyond)."""
    try:
        found = of_callable(call, h, other, relatives)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"the loss works on the rows as they are but not on longer ones, so it is tied to their {h.shape[1]} "
            f"dimensions and no function of inner products ({str(error).splitlines()[0]})"
        ) from error
    some = list(range(min(len(h), most_anchors)))
    whole = h.new_full((len(h),), math.nan)
    whole[: len(some)] = undissipated(call, h, other, found, some)
    return found, whole


def _left_over(
    call: Loss, found: Coefficients, h: Tensor, other: Tensor, extra: Tensor | None, shared: bool
) -> tuple[Coefficients, Tensor]:
    """The share (N,) of the tangential gradient that the coefficients do not explain. ``shared``: the part of it along
    the positive counts as the positive's (a matrix for a ratio)."""
    x = h.clone().requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(call(x, other).sum(), [x])
    rest = tangent(slope - _explained(found, h, other, extra), h)
    if shared:
        along = tangent(other, h)
        more = (rest * along).sum(dim=1) / (along**2).sum(dim=1).clamp_min(1e-300)
        found = replace(found, positive=found.positive + more)
        rest = rest - more.unsqueeze(1) * along
    explained = _explained(found, h, other, extra)
    sizes = [torch.linalg.vector_norm(tangent(part, h), dim=1) for part in (slope, explained)]
    return found, torch.linalg.vector_norm(rest, dim=1) / (sizes[0] + sizes[1]).clamp_min(1e-12 * sizes[0].max())


def _columns(h: Tensor, other: Tensor, extra: Tensor | None) -> Tensor:
    """The vectors of all negatives, in the order of ``Coefficients.columns``."""
    return torch.cat([other, h] if extra is None else [other, h, extra])


def _explained(found: Coefficients, h: Tensor, other: Tensor, extra: Tensor | None) -> Tensor:
    """The gradient in the anchors that the coefficients make: (N, D)."""
    return found.positive.unsqueeze(1) * other + found.columns @ _columns(h, other, extra)


def _rotation_invariant(loss: Any, labels: Tensor | None, extra: Tensor | None, h: Tensor, other: Tensor) -> bool:
    """Whether a rotation of everything leaves the value alone, as far as its precision goes."""
    with torch.no_grad():
        value = _callable(loss, labels, extra)(h, other).sum()
        turned = _callable(loss, labels, None if extra is None else rotated(extra))(rotated(h), rotated(other)).sum()
    allowed = 1e-8 if value.dtype == torch.float64 else 1e-4
    return bool((turned - value).abs() <= allowed * (1 + value.abs()))


def rotated(rows: Tensor) -> Tensor:
    """Rows (N, D) after a rotation that depends on D alone, made of reflections r - 2 (r·v) v: no D×D matrix."""
    generator = torch.Generator().manual_seed(0)
    mirrors = unit(torch.randn(REFLECTIONS, rows.shape[1], dtype=torch.float64, generator=generator)).to(rows)
    for mirror in mirrors:
        rows = rows - torch.outer(rows @ mirror, 2 * mirror)
    return rows


def _callable(loss: Any, labels: Tensor | None, extra: Tensor | None) -> Loss:
    if isinstance(loss, Objective):
        return lambda a, b: loss(a, b, labels, negatives=extra)
    return lambda a, b: loss(a, b)


def _named(loss: Any) -> str:
    return repr(loss) if isinstance(loss, Objective) else str(getattr(loss, "__name__", type(loss).__name__))


def _in_double(loss: Any) -> Any:
    """A copy whose parameters do not limit the precision, if it has any."""
    if isinstance(loss, nn.Module) and any(True for _ in loss.parameters()):
        return copy.deepcopy(loss).double()
    return loss
