"""∂L/∂S: the gradient of a loss in each similarity, for our objectives and for any other callable.

Our pairwise objectives are evaluated with their similarities as leaves. For any other callable every row is given a
private coordinate of size ε: the gradient in another row's copy of that coordinate is ε ∂L/∂S_ij, up to a relative
error of ε², for any N and D. One backward pass recovers the whole matrix, and the loss need not be differentiable
twice. It is exact for every loss that depends on inner products only; the unexplained part is the residual.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from hypersphere.engine import Inputs, Read, Statistics
from hypersphere.engine.batch import Direction, apply_metric, directions, positives
from hypersphere.engine.inputs import assemble
from hypersphere.engine.objective import reduce_anchors
from hypersphere.objectives import PairwiseObjective

Views = tuple[Tensor, ...]  # both views (N, D) and, if there are any, extra negatives (M, D)
Loss = Callable[..., Tensor]  # a function of Views

EPSILON = 1e-6
FAR = 1e4  # a similarity sent towards ∞ or -∞; float64 throughout
LEVEL = 1e-3  # a value that changes less between FAR and 2 FAR has a limit
ROLES = ("anchor", "key")  # of a row of the first view
PATH = (-1.0, -0.5, 0.0)  # similarities on the way to the antipode
STEEP = 0.9  # steps on that path that shrink by less have no limit


@dataclass(frozen=True)
class Coefficients:
    """Derivatives of a loss in the similarities of the N anchors h_i of the first view.

    positive: (N,) of h_i·h'_i; cross: (N, N) of h_i·h'_j; same: (N, N) of h_i·h_j, with zero diagonals;
    extra: (N, M) of h_i·n_j. Both of shape (N, 2N + M), None if there are none: same_label, True at rows of other
    instances that are positives too, by their label; dropped, True at pairs that ids or a guide leave out.
    """

    positive: Tensor
    cross: Tensor
    same: Tensor
    extra: Tensor
    same_label: Tensor | None = None
    dropped: Tensor | None = None

    @property
    def columns(self) -> Tensor:
        """All coefficients but the positive's, side by side: (N, 2N + M), of other view, own view and extra rows."""
        return torch.cat([self.cross, self.same, self.extra], dim=1)

    @property
    def negative(self) -> Tensor:
        """``columns`` of negatives, 0 elsewhere."""
        return self.columns if self.same_label is None else self.columns.masked_fill(self.same_label, 0)

    @property
    def relative(self) -> Tensor:
        """``columns`` of positives of other instances, 0 elsewhere."""
        return torch.zeros_like(self.columns) if self.same_label is None else self.columns * self.same_label

    @property
    def pull(self) -> Tensor:
        """(N,) sum over all positives."""
        return self.positive + self.relative.sum(dim=1)

    @property
    def size(self) -> Tensor:
        """(N,) sum of the absolute values of an anchor's coefficients."""
        return self.columns.abs().sum(dim=1) + self.positive.abs()

    def of_anchors(self, counts: Tensor) -> Coefficients:
        """The same, with 0 for anchors that do not count (N,)."""
        lines = counts.unsqueeze(1)
        return replace(
            self,
            positive=self.positive * counts,
            cross=self.cross * lines,
            same=self.same * lines,
            extra=self.extra * lines,
        )


def same_label_of(labels: Tensor, more: int) -> Tensor:
    """(N, 2N + M) True at rows of other instances that share the anchor's label."""
    same = (labels.unsqueeze(1) == labels) & (labels >= 0)
    same.fill_diagonal_(False)
    return torch.cat([same, same, same.new_zeros(len(labels), more)], dim=1)


def of_objective(
    objective: PairwiseObjective,
    inputs: Inputs,
    scope: str,
    away: float | None = None,
    roles: tuple[str, ...] = ROLES,
) -> Coefficients:
    """Coefficients of one of our pairwise objectives, in unit rows.

    scope "anchor": gradient of L_i in its own similarities (the batch loss is taken as Σ_i L_i); "batch": gradient of
    the objective as it is reduced, where h_i is also a negative of others, and a positive of h'_i if the objective has
    both directions. ``away``: replaces the similarities of all positives by this value and leaves negatives unchanged.
    ``roles``: restricts the gradient to that of h_i as an anchor, or as a key of others.
    """
    h = inputs.z1
    if objective.labelled and inputs.labels is None:
        inputs = replace(inputs, labels=torch.full((len(h),), -1, device=h.device))
    batch, _ = assemble(objective, inputs)
    by_direction: list[Statistics] = []
    leaves: list[tuple[Direction, Tensor, list[Tensor]]] = []
    with torch.enable_grad():
        for direction in directions(objective, batch):
            statistics, positive, matrices = _with_leaves(objective, direction, away)
            by_direction.append(statistics)
            leaves.append((direction, positive, matrices))
        total = _total(objective, by_direction, scope)
    flat = [leaf for _, positive, matrices in leaves for leaf in (positive, *matrices)]
    grads = iter(torch.autograd.grad(total, flat, allow_unused=True))
    size, more = batch.size, batch.num_extra
    square = h.new_zeros(size, size)
    same_label = same_label_of(inputs.labels, more) if objective.labelled and inputs.labels is not None else None
    result = Coefficients(h.new_zeros(size), square, square.clone(), h.new_zeros(size, more), same_label)
    for direction, positive, matrices in leaves:
        own = next(grads)
        by_read = [next(grads) for _ in matrices]
        if direction.anchor == 0 or (scope == "batch" and not objective.one_sided):
            result.positive.add_(torch.zeros_like(positive) if own is None else own)
        for read, grad in zip(objective.reads, by_read, strict=True):
            if grad is not None:
                _place(result, direction, read, grad, scope, objective.one_sided, roles)
    for matrix in (result.cross, result.same):
        matrix.fill_diagonal_(0)
    return result


def _with_leaves(
    objective: PairwiseObjective, direction: Direction, away: float | None
) -> tuple[Statistics, Tensor, list[Tensor]]:
    """The objective's statistics on similarities that are leaves of their own."""
    rows = direction.batch.rows
    x, y = rows[direction.anchor].detach(), rows[direction.positive_view].detach()
    matrices = []
    for read in objective.reads:
        view, sources = direction.sources(read)
        matrix = (apply_metric(objective, rows[view]) @ torch.cat([rows[source] for source in sources]).T).detach()
        if away is not None and objective.labelled:
            matrix[direction.same_label(read, slice(0, direction.batch.size))] = away
        matrices.append(matrix.requires_grad_())
    positive = positives(objective, x, y)
    positive = (positive if away is None else torch.full_like(positive, away)).requires_grad_()
    views = direction.views(slice(0, direction.batch.size))
    seen = direction.anchors(
        objective, slice(0, direction.batch.size), views, positive, matrices, objective.prepare(x, y)
    )
    return objective.block(seen), positive, matrices


def _total(objective: PairwiseObjective, by_direction: list[Statistics], scope: str) -> Tensor:
    if scope == "batch":
        return reduce_anchors(objective, by_direction)["loss"].sum()
    if objective.joined:
        return objective.join(by_direction)["loss"].sum()
    first = objective.combine(by_direction[0]) if objective.coupled else by_direction[0]
    return first["loss"].sum()


def _place(
    result: Coefficients,
    direction: Direction,
    read: Read,
    grad: Tensor,
    scope: str,
    one_sided: bool,
    roles: tuple[str, ...],
) -> None:
    """Adds a matrix's gradients to the coefficients of the first view's rows, as anchors and, in "batch", as keys."""
    size = direction.batch.size
    cut = {"cross": ["cross"], "same": ["same"], "other": ["other"], "back": ["back"], "both": ["cross", "same"]}[read]
    parts = list(grad.split([size] * len(cut) + [grad.shape[1] - size * len(cut)], dim=1))
    own = direction.sources(read)[0] == 0  # the rows are the first view's
    anchors, keys = "anchor" in roles, "key" in roles and scope == "batch" and not one_sided
    for kind, part in zip([*cut, "extra"], parts, strict=True):
        if direction.anchor == 0 and own and anchors:  # its columns are views or extra negatives
            getattr(result, kind).add_(part)
        if direction.anchor == 0 and kind == "same" and keys:
            result.same.add_(part.T)
        if keys and (direction.anchor, kind) in ((1, "cross"), (0, "back")):
            result.cross.add_(part.T)
        if direction.anchor == 0 or scope == "anchor" or one_sided or not own:
            continue
        if kind == "extra" and anchors:  # the other direction, which compares this view's rows with each other
            result.extra.add_(part)
        if kind == "back" and anchors:
            result.cross.add_(part)
        if kind == "other":
            result.same.add_(part if anchors else 0).add_(part.T if keys else 0)


def without_positives(objective: PairwiseObjective, inputs: Inputs, scope: str) -> tuple[Tensor, str]:
    """Sums (N,) of the negatives' coefficients without dissipation, and where the positives were moved, in words.

    The sum is the limit for a positive similarity towards -∞ where that is finite, and elsewhere (a squared hinge,
    whose push grows without bound) the value at the antipode. In scope "batch" only the anchor's own positive moves
    away: the anchor's gradient as a key of others does not change.
    """

    def sums(away: float | None, *roles: str) -> Tensor:
        return of_objective(objective, inputs, scope, away, roles).negative.sum(dim=1)

    kept = sums(None, "key") if scope == "batch" else torch.zeros_like(inputs.z1[:, 0])
    if math.isinf(objective.farthest):
        away = math.copysign(FAR, objective.farthest)
        limit, beyond = sums(away, "anchor"), sums(2 * away, "anchor")
        if torch.allclose(limit, beyond, rtol=LEVEL, atol=0):  # NaN is no limit either
            word = "-∞" if away < 0 else "∞, where its term vanishes"
            return limit + kept, f"similarity sent to {word}"
    return sums(-1.0, "anchor") + kept, "at the antipode"


def anchor_scale(objective: PairwiseObjective, inputs: Inputs) -> float:
    """Factor between an anchor's own coefficients in the scope "anchor" and those of the batch loss."""
    alone, shared = (
        of_objective(objective, inputs, scope, roles=("anchor",)).columns.abs().sum().item()
        for scope in ("anchor", "batch")
    )
    return alone / shared if shared else float(len(inputs.z1))


def of_callable(loss: Loss, views: Views, same_label: Tensor | None = None) -> Coefficients:
    """Coefficients of any loss, of its sum if it is a vector, in the scope of the batch. A zero row gets no private
    coordinate, which would make it nonzero: its coefficients cannot be measured."""
    sizes = [len(rows) for rows in views]
    private = EPSILON * torch.diag(torch.cat(views).any(dim=1)).to(views[0])
    x, *others = (torch.cat(pair, dim=1) for pair in zip(views, private.split(sizes), strict=True))
    grad = gradient(loss, (x, *others))[:, views[0].shape[1] :] / EPSILON
    same, cross, *extra = grad.split(sizes, dim=1)
    return Coefficients(
        cross.diagonal().clone(),
        cross.clone().fill_diagonal_(0),
        same.clone().fill_diagonal_(0),
        extra[0] if extra else grad[:, :0],
        same_label,
    )


def gradient(loss: Loss, views: Views) -> Tensor:
    """Gradient of a loss, or of the sum of its numbers, in the first view."""
    x = views[0].detach().clone().requires_grad_()
    with torch.enable_grad():
        (grad,) = torch.autograd.grad(loss(x, *views[1:]).sum(), [x])
    return grad


def undissipated(loss: Loss, views: Views, coefficients: Coefficients, anchors: list[int]) -> Tensor:
    """Sum of an anchor's negative coefficients without dissipation, for the given anchors.

    Where the sum does not depend on the positive similarity nothing dissipates (Barlow Twins, whose weights are those
    of the other view's pairs). Elsewhere the positives move to the antipode, anchor by anchor. Unit vectors cannot go
    farther, so the limit at -∞, if it exists, is extrapolated from the last steps of the path.
    """
    sums = coefficients.negative[anchors].sum(dim=1)
    reads = _reads_positive(loss, views, coefficients.same_label)
    dissipating = [i for i in anchors if reads[i] or not coefficients.negative[i].any()]
    h, other, *extra = (pad(rows, (0, 1)) for rows in (_as_long(loss, views) if dissipating else views))
    for i in dissipating:
        own = torch.zeros(len(h), dtype=torch.bool, device=h.device)
        if coefficients.same_label is not None:
            own |= coefficients.same_label[i, : len(h)]
        places = []
        for similarity in PATH:
            away = similarity * h[i]
            away[-1] = math.sqrt(1 - similarity**2)  # a direction that no other row has
            ours, theirs = h.clone(), other.clone()
            ours[own] = theirs[own] = theirs[i] = away
            excluded = own.clone()
            excluded[i] = True
            places.append(_negative_sum(loss, (ours, theirs, *extra), i, excluded))
        sums[anchors.index(i)] = _limit(*places)
    return sums


def _limit(last: Tensor, before: Tensor, first: Tensor) -> Tensor:
    """Limit of the values at equal steps: Aitken's limit of their inverses, exact for a gate 1/(1 + e^{s/τ}/Z);
    the last value if they do not converge (a squared hinge, an angle)."""
    late, early = last - before, before - first
    if not (last.sign() == before.sign() == first.sign() != 0) or early.abs() <= 1e-9 * last.abs():
        return last
    if not 0 <= late / early < STEEP:
        return last
    late, early = 1 / last - 1 / before, 1 / before - 1 / first
    return 1 / (1 / last + late**2 / (early - late))


def _as_long(loss: Loss, views: Views) -> Views:
    """Rows padded with zero coordinates to two fewer than ``of_callable`` has; unchanged if the loss does not depend on
    the number of coordinates. A loss that is divided by this number does."""
    longer = tuple(pad(rows, (0, sum(map(len, views)) - 2)) for rows in views)
    with torch.no_grad():
        same = torch.allclose(loss(*views), loss(*longer), rtol=1e-10, atol=0)
    return views if same else longer


def _negative_sum(loss: Loss, views: Views, i: int, own: Tensor) -> Tensor:
    """Sum of the negative coefficients of anchor i alone: one coordinate of size ε, shared by all instances but its
    own and others that are its positives."""
    marked = [torch.cat([rows, EPSILON * rows.any(dim=1, keepdim=True)], dim=1) for rows in views]
    for rows in marked[:2]:
        rows[own, -1] = 0
    return gradient(loss, tuple(marked))[i, -1] / EPSILON


def _reads_positive(loss: Loss, views: Views, same_label: Tensor | None) -> Tensor:
    """(N,) False where the sum of an anchor's negative coefficients is the same for two values of its positive
    similarity, (s+1)/2 and (s-1)/2, all others being equal: each pair gets a coordinate of its own, ±1 in the other
    view."""
    h, other, *extra = views
    own = torch.eye(len(h)).to(h)
    rows = torch.cat([h, own], dim=1) / math.sqrt(2)
    more = [pad(each, (0, len(h))) for each in extra]
    near, far = (
        of_callable(loss, (rows, torch.cat([other, sign * own], dim=1) / math.sqrt(2), *more), same_label).negative
        for sign in (1, -1)
    )
    size = near.abs().sum(dim=1) + far.abs().sum(dim=1)
    return (near.sum(dim=1) - far.sum(dim=1)).abs() > 1e-7 * size
